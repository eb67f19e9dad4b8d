import { randomUUID } from 'node:crypto'
import { BerthError, conflict, invalidField, notFound } from '../../shared/errors.js'
import { copyTree } from '../host/disk/copy-tree.js'
import { CommandError, run } from '../host/process/process.js'
import { adaptNetwork, checkSystem } from '../images/adapt.js'
import { planFreeUserIds } from '../images/image-settings.js'
import { unpackArchive } from '../images/sources/unpack.js'
import type { AgentConfig } from '../config.js'
import type { GuestContext, GuestImports, ImportStep } from '../guests/context.js'
import { readListeningPorts } from '../network/ports.js'
import type { OperationEngine } from '../operations/engine.js'
import { checkFree } from '../storage/room.js'
import type { PoolCapacity } from '../storage/pool.js'
import type { ArchiveReader, ForeignMapping, ImportRequest } from './contract.js'
import { importTooSmall as tooSmall } from './import-errors.js'
import { ImportStore, type ImportSource } from './import-store.js'
import { planGuest, type GuestPlan } from './plan-import.js'
import { readContainer } from './read-container.js'
import type { ManifestSandbox } from './read-manifest.js'
import { receiveArchive } from './receive-archive.js'
import { interrupted, Uploads } from './uploads.js'

export interface ImportsParts {
  readonly store: ImportStore
  readonly config: Pick<AgentConfig, 'lxc' | 'storage'>
  readonly ports: GuestContext['ports']
  readonly guests: GuestContext['store']
  readonly engine: () => OperationEngine
  readonly readDisk: () => Promise<PoolCapacity>
  readonly archives: ArchiveReader
}

export interface ImportPlan extends GuestPlan {
  readonly source: ImportSource
  readonly usedBytes: number
}

export interface BegunImport {
  readonly id: string
  /** Absent: an earlier request began this import, perhaps with other settings. */
  readonly plan?: ImportPlan
}

/** State of an import, for the operator. `waiting`: no gateway has ordered the creation of the guest yet. */
export interface ImportProgress {
  readonly state: 'waiting' | 'running' | 'done' | 'failed'
  readonly percent: number
  readonly stage: string
  readonly message: string
  readonly guest?: { readonly id: number; readonly uuid: string; readonly name: string }
}

/** Maximum number of imports that wait for a gateway or run. */
const mostImports = 100
const duTimeoutMs = 30 * 60_000

/**
 * Imports containers of this host, and archives that a gateway sends, as guests. The original containers are only
 * read.
 */
export class Imports implements GuestImports {
  readonly store: ImportStore
  readonly uploads = new Uploads()

  constructor(private readonly parts: ImportsParts) {
    this.store = parts.store
  }

  /** Plans an import and changes nothing. @throws {BerthError} like `readContainer` and `planGuest` */
  async plan(request: ImportRequest): Promise<ImportPlan> {
    const { foreign, path, isArchive } = await readContainer(request, this.#sandbox)
    const usedBytes = await measure(path)
    const { ports } = this.parts
    const choice = ports.openChoice(await readListeningPorts(['tcp', 'udp']))
    const plan = planGuest(foreign, request, {
      usedBytes,
      isArchive,
      isFree: (mapping) => choice.tryTake(spanOf(mapping)),
      hasAddress: (address) => ports.hasHostIp(address),
    })
    return { ...plan, usedBytes, source: { path, isArchive, ...(foreign.ids && { ids: foreign.ids }) } }
  }

  /**
   * Begins an import. If the same files are being imported already, returns only the id of that import, without a plan.
   * @throws {BerthError} like `plan`; `resource_exhausted`
   */
  async begin(request: ImportRequest): Promise<BegunImport> {
    const plan = await this.plan(request)
    checkFree(await this.parts.readDisk())
    const open = this.store.listOpen()
    const same = open.find(({ source }) => source.path === plan.source.path)
    if (same) return { id: same.id }
    if (open.length >= mostImports)
      throw conflict(
        'resource_exhausted',
        `at most ${mostImports} imports can run at the same time: wait until one of them has ended`,
      )
    const id = randomUUID()
    const { name, spec, source, usedBytes } = plan
    this.store.add({ id, name, source: { ...source, usedBytes }, spec: { ...spec, importId: id } })
    return { id, plan }
  }

  /** @throws {BerthError} `not_found` */
  show(id: string): ImportProgress {
    const found = this.store.find(id)
    if (found?.state === 'waiting') return { state: 'waiting', percent: 0, stage: '', message: '' }
    if (found?.state === 'refused') return { state: 'failed', percent: 0, stage: '', message: found.message }
    const operation = this.parts.engine().get(id)
    const { status, progress: percent, stage, error: message, subject } = operation
    const guest = this.parts.guests.find(subject.id)
    const state = status === 'done' ? 'done' : status === 'pending' || status === 'running' ? 'running' : 'failed'
    return {
      state,
      percent,
      stage,
      message: status === 'canceled' ? 'the import was canceled' : message,
      ...(guest && { guest: { id: guest.id, uuid: guest.uuid, name: guest.name } }),
    }
  }

  /**
   * Cancels an import, unless its files are already complete. Can be repeated.
   * @throws {BerthError} `not_found`, `task_running`, `invalid_state`
   */
  cancel(id: string): void {
    const found = this.store.find(id)
    if (!found) throw notFound('import')
    if (found.state === 'refused') return
    if (found.state !== 'waiting') return void this.parts.engine().cancel(id)
    this.store.refuse(id, 'the import was canceled')
  }

  isUpload(id: string): boolean {
    return this.uploads.find(id) !== undefined
  }

  order(id: string): void {
    if (this.isUpload(id)) return
    const found = this.store.find(id)
    if (!found) throw interrupted() // all other imports are in the journal
    if (found.state !== 'waiting')
      throw invalidField('import_id', 'import_id: this host has no waiting import with this id')
    this.store.order(id)
  }

  end(id: string): void {
    this.uploads.find(id)?.fail(interrupted())
    this.store.end(id)
  }

  fail(id: string, error: unknown): void {
    this.uploads.find(id)?.fail(error)
  }

  async copy(...[id, target, step]: Parameters<GuestImports['copy']>): Promise<void> {
    const { report, signal } = step
    const found = this.store.find(id)
    if (!found) return this.#receive(id, target, step)
    const { source } = found
    if (source.isArchive) await this.#unpack(source.path, target, signal)
    else await this.#copyTree(source, target, { report, signal })
    await checkSystem(target)
    await adaptNetwork(target)
  }

  async complete(...[id, keep]: Parameters<GuestImports['complete']>): Promise<void> {
    if (this.store.find(id)) return keep()
    const upload = this.uploads.find(id)
    if (!upload) throw interrupted()
    await upload.complete(keep)
  }

  /** An archive whose sender is no longer connected cannot be received again, for example after a restart. */
  async #receive(...[id, target, step]: Parameters<GuestImports['copy']>): Promise<void> {
    const upload = this.uploads.find(id)
    if (!upload) throw interrupted()
    const unpack = (...[parts, signal]: Parameters<Parameters<typeof receiveArchive>[0]['unpack']>): Promise<void> =>
      this.parts.archives.unpack(parts, target, signal)
    await receiveArchive({ upload, unpack, diskBytes: step.diskBytes, step })
  }

  async #unpack(archive: string, target: string, signal: AbortSignal): Promise<void> {
    const hostIdBase = planFreeUserIds(this.parts.config.lxc)
    try {
      await unpackArchive({ archive, target, hostIdBase, keepsUserAttributes: true }, signal)
    } catch (error) {
      throw error instanceof BerthError && error.code === 'image_too_large' ? tooSmall(error) : error
    }
  }

  async #copyTree(
    { path, ids, usedBytes = 0 }: ImportSource,
    target: string,
    { report, signal }: Pick<ImportStep, 'report' | 'signal'>,
  ): Promise<void> {
    await readContainer({ kind: 'directory', container: path }, this.#sandbox) // it may run since the request
    let bytes = 0
    const copied = (more: number): void => {
      bytes += more
      report(Math.min(0.99, bytes / Math.max(usedBytes, 1)), 'copying files')
    }
    const hostIdBase = planFreeUserIds(this.parts.config.lxc)
    try {
      await copyTree({ source: path, ids, target, hostIdBase }, copied, signal)
    } catch (error) {
      throw error instanceof CommandError ? copyError(error) : error
    }
  }

  get #sandbox(): ManifestSandbox {
    const { lxc, storage } = this.parts.config
    return { directory: storage.pool, hostIdBase: planFreeUserIds(lxc) }
  }
}

function spanOf({ protocol, hostIp, hostPort, length }: ForeignMapping) {
  return { protocol, hostIp, first: hostPort, last: hostPort + length - 1 }
}

/** Returns the bytes that the files use on their disk, without other file systems that are mounted inside. */
async function measure(path: string): Promise<number> {
  const { stdout } = await run('du', ['--summarize', '--one-file-system', '--block-size=1', '--', path], {
    timeoutMs: duTimeoutMs,
  })
  return Number(stdout.split('\t')[0])
}

function copyError(cause: CommandError): BerthError {
  const { stderr } = cause
  if (/Disk quota exceeded|No space left on device/.test(stderr)) return tooSmall(cause)
  const why = /Cannot change ownership/.test(stderr)
    ? 'a file belongs to a user id above 65535'
    : stderr.trim().slice(-200)
  return new BerthError('conflict', 'import_refused', `the files of the container cannot be copied: ${why}`, { cause })
}
