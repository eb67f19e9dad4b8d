import { pollUntilEnd, RefusedError, type BerthClient } from '../../client/index.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import {
  commandNotes,
  hasExpired,
  installNews,
  installProgress,
  installStepOf,
  type InstallCommand,
  type NewHost,
} from '../hosts/plan-install.js'
import { formatResult, type OutputOptions } from '../output/print.js'
import { watchReader } from '../output/reader.js'
import { printable } from '../output/width.js'
import { openSession, outputOptions, timeoutOf, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import type { FollowOptions } from '../tasks/follow.js'
import { waitWithProgress } from '../tasks/wait.js'

export interface HostAddSettings {
  readonly address?: string
  readonly publicAddress?: string
  /** True to follow the installation of a host that was added before. */
  readonly follow?: true
}

export interface HostAddRun {
  readonly host: string
  readonly settings: HostAddSettings
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** An installation that the program follows. */
interface Installation {
  readonly client: BerthClient
  readonly id: string
  readonly name: string
  /** The host before this attempt; undefined: the attempt is already in progress. */
  readonly earlier: NewHost | undefined
  /** Time in ms for which the command is valid, for gateways that do not report it; Infinity: not known. */
  readonly validMs: number
  /** Prints the command, or the present state. */
  readonly print: () => void
}

/**
 * Adds a host, prints the command that installs it, and waits until the gateway has reached its agent.
 * @throws {CliError} `failed` if the installation failed, `unreachable` if the command expired or the time is over
 */
export async function runHostAdd(run: HostAddRun): Promise<void> {
  const { options, surroundings } = run
  const output = outputOptions(options, 'host add', surroundings.width)
  const timeoutMs = timeoutOf(options)
  const installation = run.settings.follow ? await findHost(run) : await createHost(run, output)
  const { name, print } = installation
  // With -q, nobody sees the command, so that nobody can run it.
  const isWaiting = options.wait && (!output.isQuiet || run.settings.follow === true)
  if (!isWaiting) print()
  if (!options.wait) surroundings.writeError(`${followHint(name)}\n`)
  if (!isWaiting) return
  const waiting = { timeoutMs, surroundings, isQuiet: output.isQuiet }
  const reader = watchReader()
  await waitWithProgress(waiting, followHint(name), (following) => {
    surroundings.endWithReader(`${unreadText(name)}\n`)
    print() // after the wait has begun, so that Ctrl-C never ends the program without its hint
    const unread = reader.gone.then(() => following.report(unreadText(name)))
    return Promise.race([follow(installation, following), unread])
  }).finally(() => reader.release())
}

async function findHost({ host, settings, options, surroundings }: HostAddRun): Promise<Installation> {
  if (settings.address !== undefined || settings.publicAddress !== undefined)
    throw usageError('--follow: changes nothing, so it cannot be combined with --address or --public-address')
  const { client, names } = await openSession(surroundings, options)
  const id = await names.resolve(host, 'host')
  const now = await readHost(client, id)
  const hasFailed = installStepOf(now) === 'failed'
  const print = (): void => {
    if (!options.quiet) surroundings.writeError(`${printable(presentState(now, hasFailed))}\n`)
  }
  return { client, id, name: now.name, earlier: hasFailed ? now : undefined, validMs: Infinity, print }
}

function presentState({ name, install }: NewHost, hasFailed: boolean): string {
  if (hasFailed) return `The last attempt failed: ${install?.message}. Waiting for the command to be run again.`
  return `Following the installation of host ${name}.`
}

async function createHost(
  { host: name, settings, options, surroundings }: HostAddRun,
  output: OutputOptions,
): Promise<Installation> {
  const { client } = await openSession(surroundings, options)
  const { address, publicAddress } = settings
  const body = {
    name,
    ...(address !== undefined && { address }),
    ...(publicAddress !== undefined && { public_address: publicAddress }),
  }
  const created = await send(client, body)
  const { host, ...command } = created
  const validMs = Date.parse(command.expires_at) - Date.parse(host.created_at)
  const isShown = output.form === 'table' && output.columns === undefined && !output.isQuiet
  const result = isShown ? '' : await formatResult(output.isQuiet ? host : created, '', output)
  const print = (): void => (isShown ? showCommand(host.name, command, surroundings) : surroundings.writeOut(result))
  return { client, id: host.id, name: host.name, earlier: host, validMs: validMs > 0 ? validMs : Infinity, print }
}

type Created = InstallCommand & { readonly host: NewHost & { readonly created_at: string } }

async function send(client: BerthClient, body: { readonly name: string }): Promise<Created> {
  try {
    return (await client.send({ method: 'POST', path: '/hosts', body })).body.data as Created
  } catch (cause) {
    if (!(cause instanceof RefusedError) || cause.code !== 'name_conflict') throw cause
    throw new CliError(
      exitCodes.conflict,
      cause.message,
      `follow its installation with: ${followCommand(body.name)}; for another command: ${tokenCommand(body.name)}`,
    )
  }
}

/** Prints the command to the standard output, without cutting it, and the rest to the standard error. */
function showCommand(name: string, command: InstallCommand, { writeOut, writeError }: Surroundings): void {
  writeError(
    `${commandNotes(name, command)
      .map((line) => printable(line))
      .join('\n')}\n\n`,
  )
  writeOut(`${printable(command.command)}\n`)
  writeError('\n')
}

const readHost = async (client: BerthClient, id: string): Promise<NewHost> =>
  (await client.send({ method: 'GET', path: `/hosts/${encodeURIComponent(id)}` })).body.data as NewHost

async function follow(installation: Installation, options: FollowOptions): Promise<void> {
  const { client, id, name, earlier, validMs } = installation
  const endMs = options.nowMs() + validMs
  let before: string | undefined
  const show = (now: NewHost): void => {
    const step = installStepOf(now, earlier)
    const news = installNews(before, step)
    if (news !== undefined) options.report(`${name}: ${news}`)
    before = step
    options.showProgress(`add ${name}: ${installProgress(step, now)}`)
  }
  const isEnded = (now: NewHost): boolean => {
    const step = installStepOf(now, earlier)
    return step === 'online' || step === 'failed' || hasExpired(now, step, options.nowMs() > endMs)
  }
  const { timeoutMs = Infinity } = options
  const timedOut = (): CliError =>
    new CliError(exitCodes.unreachable, `host ${name} did not come online in time`, followHint(name))
  const ended = await pollUntilEnd({ read: () => readHost(client, id), isEnded, show, timeoutMs, timedOut })
  const failure = failureOf(ended, installStepOf(ended, earlier))
  if (failure !== undefined) throw failure
  show(ended)
  options.report(`add ${name}: done; create a guest on it with: berth guest create NAME --host ${name} --image IMAGE`)
}

/** Returns the error for an installation that has ended without success; undefined: it succeeded. */
function failureOf({ name, install }: NewHost, step: string): CliError | undefined {
  if (step === 'online') return undefined
  if (step === 'failed')
    return new CliError(
      exitCodes.failed,
      `the installation of host ${name} failed: ${install?.message || 'see the output of the command on the host'}`,
      `remove the reason, run the command again, and follow it with: ${followCommand(name)}`,
    )
  return new CliError(
    exitCodes.unreachable,
    `the command for host ${name} expired before the host joined`,
    `create another command: ${tokenCommand(name)}; then follow it with: ${followCommand(name)}`,
  )
}

const followCommand = (name: string): string => `berth host add ${name} --follow`
const tokenCommand = (name: string): string => `berth host create-join-token ${name}`

const unreadText = (name: string): string => `no longer waiting, because nobody reads the output; ${followHint(name)}`

const followHint = (name: string): string =>
  `the installation continues; follow it with: ${followCommand(name)}; remove the host with: berth host delete ${name}`
