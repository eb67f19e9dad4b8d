import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { BerthError, invalidField } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { sourceKinds, type ImportRequest, type SourceKind } from './contract.js'
import { callImports } from './import-client.js'
import type { BegunImport, ImportPlan, ImportProgress } from './imports.js'
import { planTable } from './plan-table.js'

/** Options of `berth-agent import`, as commander reads them. */
export interface ImportOptions {
  readonly name?: string
  readonly vcpu?: string
  readonly ram?: string
  readonly disk?: string
  readonly rootfs?: string
  readonly configFile?: string
  readonly start?: boolean
  readonly dryRun?: boolean
  /** Id of an import to cancel. If it is set, no import begins. */
  readonly cancel?: string
}

/** The arguments of `berth-agent import`. */
export interface ImportCommand {
  readonly kind: string | undefined
  readonly container: string | undefined
  readonly options: ImportOptions
}

const lookEveryMs = 1000
/** Exit code of a program that Ctrl-C ends. */
const interruptedCode = 130

/**
 * Imports a container, and prints the plan, the id and the progress. With the option `cancel`, cancels an import.
 * @throws {BerthError} if the import fails
 */
export async function importContainer(
  { run_dir: runDir }: Pick<AgentConfig, 'run_dir'>,
  { kind, container, options }: ImportCommand,
): Promise<void> {
  if (options.cancel !== undefined) return cancelImport(runDir, options.cancel)
  if (kind === undefined || container === undefined)
    throw new BerthError(
      'invalid',
      'missing_field',
      'the arguments kind and container are required, unless --cancel ID is used',
    )
  const body = requestOf(kind, container, options)
  if (options.dryRun) {
    const { plan } = await callImports<{ plan: ImportPlan }>(runDir, { method: 'POST', path: '/plan', body })
    process.stdout.write(planTable(plan))
    return
  }
  const { id, plan } = await callImports<BegunImport>(runDir, { method: 'POST', path: '/imports', body })
  const begun = plan
    ? planTable(plan)
    : 'These files are already being imported, so the options of this command are ignored.\n'
  process.stdout.write(`${begun}\nimport ${id}\n`)
  process.once('SIGINT', () => leave(id))
  const { guest } = await follow(runDir, id)
  console.log(
    guest
      ? `imported as ${guest.name}: id ${guest.id}, uuid ${guest.uuid}`
      : 'the import has ended, but the guest was deleted afterwards',
  )
}

async function cancelImport(runDir: string, id: string): Promise<void> {
  if (!/^[0-9a-f-]{36}$/.test(id)) throw invalidField('cancel', '--cancel: must be the id of an import')
  await callImports(runDir, { method: 'DELETE', path: `/imports/${id}` })
  console.log(`import ${id} was canceled`)
}

/** Ends the command, but not the import. */
function leave(id: string): void {
  console.error(
    `import ${id} continues in the agent; to cancel it while it waits for a gateway: berth-agent import --cancel ${id}`,
  )
  process.exit(interruptedCode)
}

function requestOf(kind: string, container: string, options: ImportOptions): ImportRequest {
  if (!isKind(kind)) throw invalidField('kind', `kind: must be one of ${sourceKinds.join(', ')}`)
  const { name, vcpu, ram, disk, rootfs, configFile, start } = options
  return {
    kind,
    container: isPath(kind) ? resolve(container) : container,
    name,
    vcpu: numberOf('vcpu', vcpu),
    ramMb: numberOf('ram', ram),
    diskGb: numberOf('disk', disk),
    rootfs: rootfs && resolve(rootfs),
    configFile: configFile && resolve(configFile),
    start,
  }
}

/** True if a container of this kind is named by its path. */
function isPath(kind: SourceKind): boolean {
  return kind === 'directory' || kind === 'archive'
}

function isKind(kind: string): kind is SourceKind {
  return sourceKinds.some((known) => known === kind)
}

function numberOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,9}(\.\d{1,3})?$/.test(text)) throw invalidField(option, `--${option}: must be a number`)
  return Number(text)
}

/** Prints each new stage until the import has ended. */
async function follow(runDir: string, id: string): Promise<ImportProgress> {
  let shown = ''
  for (;;) {
    const progress = await callImports<ImportProgress>(runDir, { method: 'GET', path: `/imports/${id}` })
    const { state, stage, message } = progress
    if (state === 'done') return progress
    if (state === 'failed')
      throw new BerthError('conflict', 'import_failed', message || 'the import failed: see the log of the agent')
    const text = state === 'waiting' ? 'waiting for a gateway to reserve the name of the guest' : stage || 'queued'
    if (text !== shown) console.log(text)
    shown = text
    await delay(lookEveryMs)
  }
}
