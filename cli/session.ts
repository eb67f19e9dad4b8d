import type { BerthClient } from '../client/index.js'
import { findConnection, type FoundConnection } from './contexts/connection.js'
import { GatewayClient } from './contexts/gateway-client.js'
import { Names } from './names/names.js'
import type { Surroundings } from './surroundings.js'
import { printable } from './output/width.js'
import { checkFilter } from './output/jq.js'
import { outputForms, type OutputOptions } from './output/print.js'
import { usageError } from './errors.js'
import { parseDuration } from './input/times.js'

/** Options that every command has. */
export interface GlobalOptions {
  readonly output?: string
  readonly columns?: string
  readonly jq?: string
  readonly quiet?: boolean
  readonly context?: string
  readonly wait: boolean
  readonly timeout?: string
}

/** The gateway with which a command works, and the names of the gateway's objects. */
export interface Session {
  readonly client: BerthClient
  readonly names: Names
}

export async function openSession(surroundings: Surroundings, options: GlobalOptions): Promise<Session> {
  const client = openClient(await findConnection(surroundings, options.context), surroundings)
  return { client, names: new Names(client) }
}

/** Returns a client that fails at once if it cannot connect, because the user is waiting. */
export function openClient(
  { source, ...connection }: FoundConnection,
  { hasProgress, writeError }: Surroundings,
): BerthClient {
  const onRetry = ({ message }: Error, delayMs: number): void => {
    if (hasProgress) writeError(`${printable(message)}: trying again in ${Math.ceil(delayMs / 1000)} s\n`)
  }
  return new GatewayClient({ ...connection, connectAttempts: 1, onRetry }, source)
}

/** @throws {CliError} `usage` */
export function outputOptions(options: GlobalOptions, command: string, width: number | undefined): OutputOptions {
  const wanted = options.output ?? (options.jq === undefined ? 'table' : 'json')
  const form = outputForms.find((one) => one === wanted)
  if (form === undefined) throw usageError(`-o: ${options.output} must be one of ${outputForms.join(', ')}`)
  if (options.jq !== undefined && (form !== 'json' || options.quiet))
    throw usageError('--jq: filters JSON, so it cannot be combined with -q or another output form')
  if (options.jq !== undefined) checkFilter(options.jq)
  return { form, isQuiet: options.quiet ?? false, columns: options.columns, width, command, jq: options.jq }
}

/** @throws {CliError} `usage` */
export function timeoutOf({ timeout }: GlobalOptions): number | undefined {
  if (timeout === undefined) return undefined
  const ms = parseDuration(timeout)
  if (ms === undefined) throw usageError(`--timeout: ${timeout} is not a duration; write 30s, 5m or 1h`)
  return ms
}
