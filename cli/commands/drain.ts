import { pollUntilEnd, type BerthClient } from '../../client/index.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import { confirm } from '../input/confirm.js'
import { parseWhole, parseWord } from '../input/values.js'
import { parseTime } from '../input/times.js'
import { hostNames } from '../moves/host-names.js'
import {
  drainFailure,
  drainNews,
  drainProgress,
  drainReplacement,
  flagsOfNewDrain,
  isDraining,
  planColumns,
  planRows,
  type Drain,
  type DrainSettings,
} from '../moves/plan-drain.js'
import { formatTable } from '../output/table.js'
import { openSession, outputOptions, timeoutOf, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import type { FollowOptions } from '../tasks/follow.js'
import { waitWithProgress } from '../tasks/wait.js'

export interface DrainRun {
  readonly host: string
  readonly settings: DrainSettings
  readonly isConfirmed: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/**
 * Shows the plan of a drain, begins it after a confirmation, and waits for its end. If a drain runs, only waits.
 * @throws {CliError} `usage` if settings are given for a drain in progress, `failed` if it is paused, and as `follow`
 */
export async function runDrain({ host, settings, isConfirmed, options, surroundings }: DrainRun): Promise<void> {
  const { isQuiet } = outputOptions(options, 'drain', surroundings.width)
  const timeoutMs = timeoutOf(options)
  const body = bodyOf(settings, surroundings.nowMs())
  const { client, names } = await openSession(surroundings, options)
  const id = await names.resolve(host, 'host')
  const nameOf = await hostNames(names)
  const drain: NamedDrain = { client, path: `/hosts/${encodeURIComponent(id)}/drain`, name: nameOf(id), nameOf }
  const present = await readDrain(drain)
  const isPresent = isDraining(present) && present.direction === 'away'
  if (isPresent) checkFollowable(drain.name, present, { settings, surroundings })
  const started = isPresent ? present : await begin(drain, body, { isConfirmed, surroundings })
  if (!options.wait) return surroundings.writeError(`${followHint(drain.name)}\n`)
  const waiting = { timeoutMs, surroundings, isQuiet }
  await waitWithProgress(waiting, followHint(drain.name), (following) => follow(drain, started, following))
}

interface NamedDrain {
  readonly client: BerthClient
  readonly path: string
  readonly name: string
  readonly nameOf: (hostId: string) => string
}

async function readDrain({ client, path }: NamedDrain): Promise<Drain> {
  return (await client.send({ method: 'GET', path })).body.data as Drain
}

/** @throws {CliError} `usage` */
function bodyOf({ mode, parallel, deadline }: DrainSettings, nowMs: number): object {
  return {
    ...(mode !== undefined && { mode: parseWord('--mode', mode, modes) }),
    ...(parallel !== undefined && { parallel: parseWhole('--parallel', parallel, parallelRange) }),
    ...(deadline !== undefined && { deadline: parseTime(deadline, nowMs) }),
  }
}

const modes = ['move', 'stop']
const parallelRange = [1, 20] as const

/** Checks that the command can wait for a drain in progress. @throws {CliError} `usage`, or `failed` if it is paused */
function checkFollowable(
  name: string,
  present: Drain,
  { settings, surroundings }: Pick<DrainRun, 'settings' | 'surroundings'>,
): void {
  const flags = flagsOfNewDrain(settings)
  if (flags.length > 0)
    throw usageError(
      `${flags.join(', ')}: the drain of host ${name} is in progress, and its settings cannot be changed`,
      `follow it with: berth drain ${name}; cancel it with: berth host cancel-drain ${name}`,
    )
  const failure = present.state === 'paused' ? failureOf(present, name) : undefined
  if (failure !== undefined) throw failure
  surroundings.writeError(`Host ${name} is already being drained.\n`)
}

/** Shows the plan of a drain and begins it after a confirmation. @returns the drain in progress */
async function begin(
  { client, path, name, nameOf }: NamedDrain,
  body: object,
  { isConfirmed, surroundings }: Pick<DrainRun, 'isConfirmed' | 'surroundings'>,
): Promise<Drain> {
  const plan = (await client.send({ method: 'POST', path, body: { ...body, dry_run: true } })).body.data as Drain
  const rows = planRows(plan, nameOf)
  const text = rows.length > 0 ? formatTable(rows, planColumns, surroundings.width) : `Host ${name} has no guests.\n`
  surroundings.writeError(text)
  if (!isConfirmed) await confirm(`Drain host ${name} now? It gets no new guests until it is opened again.`)
  return (await client.send({ method: 'POST', path, body })).body.data as Drain
}

/** @throws {CliError} `failed` if guests stay on the host, or the drain is paused, canceled or replaced */
async function follow(drain: NamedDrain, started: Drain, options: FollowOptions): Promise<void> {
  const { name, nameOf } = drain
  let before: Drain | undefined
  const show = (now: Drain): void => {
    for (const line of drainNews(before, now, nameOf)) options.report(line)
    before = now
    options.showProgress(`drain ${name}: ${drainProgress(now)}`)
  }
  const replacementOf = (now: Drain): string | undefined => drainReplacement(started, now)
  const timedOut = (): CliError =>
    new CliError(exitCodes.unreachable, `the drain of host ${name} did not end in time`, followHint(name))
  const read = (): Promise<Drain> => readDrain(drain)
  const isEnded = (now: Drain): boolean => now.state !== 'running' || replacementOf(now) !== undefined
  const { timeoutMs = Infinity } = options
  const ended = await pollUntilEnd({ read, isEnded, show, timeoutMs, timedOut })
  const replacement = replacementOf(ended)
  if (replacement !== undefined) throw new CliError(exitCodes.failed, replacement, statusHint(name))
  show(ended)
  const failure = failureOf(ended, name)
  if (failure !== undefined) throw failure
  options.report(`drain ${name}: done; open the host again with: berth host undrain ${name}`)
}

/** Returns the error for a drain that failed or is paused; undefined: the drain succeeded. */
function failureOf(drain: Drain, name: string): CliError | undefined {
  const failure = drainFailure(drain)
  if (failure === undefined) return undefined
  const resumeHint = `resume it with: berth host resume-drain ${name}; cancel it with: berth host cancel-drain ${name}`
  return new CliError(exitCodes.failed, failure, drain.state === 'paused' ? resumeHint : statusHint(name))
}

const statusHint = (name: string): string => `see the result of each guest: berth host drain-status ${name}`

const followHint = (name: string): string =>
  `the drain continues; follow it with: berth drain ${name}; cancel it with: berth host cancel-drain ${name}`
