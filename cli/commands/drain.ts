import type { Client } from '../client/client.js'
import { CliError, exitCodes } from '../errors.js'
import { confirm } from '../input/confirm.js'
import { parseTime } from '../input/times.js'
import { hostNames } from '../moves/host-names.js'
import {
  drainFailure,
  drainNews,
  drainProgress,
  isDraining,
  planColumns,
  planRows,
  type Drain,
} from '../moves/plan-drain.js'
import { formatTable } from '../output/table.js'
import { openSession, outputOptions, timeoutOf, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { endOf, type FollowOptions } from '../tasks/follow.js'
import { pollUntilEnd } from '../tasks/poll.js'
import { waitWithProgress } from '../tasks/wait.js'

export interface DrainSettings {
  readonly mode?: string
  readonly parallel?: string
  readonly deadline?: string
}

export interface DrainRun {
  readonly host: string
  readonly settings: DrainSettings
  readonly isConfirmed: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Shows what a drain would do, begins it after a confirmation, and follows it. A drain in progress is only followed. */
export async function runDrain({ host, settings, isConfirmed, options, surroundings }: DrainRun): Promise<void> {
  const { isQuiet } = outputOptions(options, 'drain', surroundings.width)
  const timeoutMs = timeoutOf(options)
  const { client, names } = await openSession(surroundings, options)
  const id = await names.resolve(host, 'host')
  const nameOf = await hostNames(names)
  const drain: NamedDrain = { client, path: `/hosts/${encodeURIComponent(id)}/drain`, name: nameOf(id), nameOf }
  const present = await readDrain(drain)
  if (isDraining(present) && present.direction === 'away')
    surroundings.writeError(`Host ${drain.name} is already being drained.\n`)
  else await begin(drain, bodyOf(settings, surroundings.nowMs()), { isConfirmed, surroundings })
  if (!options.wait) return surroundings.writeError(`${followHint(drain.name)}\n`)
  const waiting = { timeoutMs, surroundings, isQuiet }
  await waitWithProgress(waiting, followHint(drain.name), (following) => follow(drain, following))
}

interface NamedDrain {
  readonly client: Client
  readonly path: string
  /** Name of the host. */
  readonly name: string
  readonly nameOf: (hostId: string) => string
}

async function readDrain({ client, path }: NamedDrain): Promise<Drain> {
  return (await client.send({ method: 'GET', path })).body.data as Drain
}

function bodyOf({ mode, parallel, deadline }: DrainSettings, nowMs: number): object {
  return {
    ...(mode !== undefined && { mode }),
    ...(parallel !== undefined && { parallel: Number(parallel) }),
    ...(deadline !== undefined && { deadline: parseTime(deadline, nowMs) }),
  }
}

async function begin(
  { client, path, name, nameOf }: NamedDrain,
  body: object,
  { isConfirmed, surroundings }: Pick<DrainRun, 'isConfirmed' | 'surroundings'>,
): Promise<void> {
  const plan = (await client.send({ method: 'POST', path, body: { ...body, dry_run: true } })).body.data as Drain
  const rows = planRows(plan, nameOf)
  const text = rows.length > 0 ? formatTable(rows, planColumns, surroundings.width) : `Host ${name} has no guests.\n`
  surroundings.writeError(text)
  if (!isConfirmed) await confirm(`Drain host ${name} now? It gets no new guests until it is opened again.`)
  await client.send({ method: 'POST', path, body })
}

/** @throws {CliError} failed if guests stay on the host */
async function follow({ client, path, name, nameOf }: NamedDrain, options: FollowOptions): Promise<void> {
  let before: Drain | undefined
  const show = (drain: Drain): void => {
    for (const line of drainNews(before, drain, nameOf)) options.report(line)
    before = drain
    options.showProgress(`drain ${name}: ${drainProgress(drain)}`)
  }
  const timedOut = (): CliError =>
    new CliError(exitCodes.unreachable, `the drain of host ${name} did not end in time`, followHint(name))
  const nowMs = (): number => options.nowMs()
  const isEnded = (drain: Drain): boolean => !isDraining(drain)
  const ended = await pollUntilEnd<Drain>(client, { path, isEnded, show, endMs: endOf(options), nowMs, timedOut })
  show(ended)
  const failure = drainFailure(ended)
  if (failure === undefined)
    return options.report(`drain ${name}: done; open it again with: berth host undrain ${name}`)
  throw new CliError(exitCodes.failed, failure, `see the reasons: berth host drain-status ${name}`)
}

const followHint = (name: string): string =>
  `the drain continues; follow it with: berth drain ${name}; cancel it with: berth host cancel-drain ${name}`
