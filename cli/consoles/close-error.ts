import { CliError, exitCodes, type ExitCode } from '../errors.js'

const reasons: Readonly<Record<string, string>> = {
  gateway_leaves: 'the gateway restarts; connect again',
  not_running: 'the guest does not run',
  blocked: 'the guest is suspended',
  idle: 'there was no input for a long time',
  too_many: 'too many consoles are open',
  revoked: 'the key or its rights changed',
  deleted: 'the guest was deleted',
  console_gone: 'the connection was lost for too long, and its programs were ended',
  taken_over: 'another client continues it',
}

const codes: Readonly<Record<number, ExitCode>> = {
  4401: exitCodes.notAllowed,
  4403: exitCodes.notAllowed,
  4404: exitCodes.notFound,
  4409: exitCodes.conflict,
  4410: exitCodes.notFound,
}

/** Returns the error with which a console has ended; undefined: the console's user or shell ended it. */
export function closeError(code: number, reason: string): CliError | undefined {
  if (code === 1000 || code === 1005) return undefined
  const text = reasons[reason] ?? (reason || `the connection was lost (${code})`)
  const exitCode = codes[code] ?? (code < 4400 ? exitCodes.unreachable : exitCodes.failed)
  return new CliError(exitCode, `the console has ended: ${text}`)
}
