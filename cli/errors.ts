import { getSystemErrorMap } from 'node:util'
// Imports only the errors, because every command loads this module, but not every command sends requests.
import { RefusedError, TimeoutError, UnexpectedAnswerError, UnreachableError } from '../client/http/errors.js'
import { addressHint, certificateHint, otherAddressHint, otherKeyHint, sourceOf } from './gateway-source.js'

/* Errors that the program reports. Comments with `@throws {CliError}` name the exit code. The codes never change. */

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  unreachable: 6,
  /** Exit code after Ctrl-C, the same as in shells. */
  interrupted: 130,
} as const
/** Meanings of the exit codes, for the help and the manual page. */
export const exitCodeTexts: Readonly<Record<number, string>> = {
  0: 'success',
  1: 'failed, or `berth doctor` found problems',
  2: 'wrong usage',
  3: 'not found',
  4: 'not logged in, or not allowed',
  5: 'conflict with the present state, or `berth apply --dry-run` found a difference',
  6: 'unreachable or timed out',
  130: 'Ctrl-C while waiting',
}

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

export class CliError extends Error {
  override readonly name = 'CliError'

  /** @param hint what the user can do next; undefined: nothing is known */
  constructor(
    readonly exitCode: ExitCode,
    message: string,
    readonly hint?: string,
  ) {
    super(message)
  }
}

/**
 * The result cannot be printed in the requested form, although the request was carried out. The result is still printed,
 * because it may contain a password that is shown only once.
 */
export class FilterError extends CliError {
  /** @param unfiltered the result, which the program prints to its standard output */
  constructor(
    message: string,
    readonly unfiltered: string,
    hint = 'the result is printed without the filter',
  ) {
    super(exitCodes.failed, message, hint)
  }
}

export const usageError = (message: string, hint?: string): CliError => new CliError(exitCodes.usage, message, hint)

/** Returns the error for a file of this machine that cannot be read or written. */
export function fileError(path: string, cause: unknown): CliError {
  const { code } = cause as NodeJS.ErrnoException
  const isMissing = code === 'ENOENT' || code === 'ENOTDIR'
  return usageError(`${path}: ${isMissing ? 'there is no such file' : systemErrorText(cause)}`)
}

/** Returns the text of an error of the operating system, such as `permission denied`, without code and path. */
export function systemErrorText(cause: unknown): string {
  const { code, errno = 0, message } = cause as NodeJS.ErrnoException
  if (code === 'EISDIR') return 'is a directory'
  return getSystemErrorMap().get(errno)?.[1] ?? message
}

/** Converts an error of the client to the error that the program reports; undefined: another kind of error. */
export function cliErrorOf(cause: unknown): CliError | undefined {
  if (cause instanceof CliError) return cause
  if (cause instanceof RefusedError) return new CliError(exitCodeOf(cause.status), cause.message, hintOf(cause))
  if (cause instanceof UnreachableError) return unreachableError(cause)
  if (cause instanceof UnexpectedAnswerError)
    return new CliError(exitCodes.failed, cause.message, unexpectedHint(cause))
  return cause instanceof TimeoutError ? new CliError(exitCodes.unreachable, cause.message) : undefined
}

export function exitCodeOf(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.notAllowed
  if (status === 404) return exitCodes.notFound
  if (status === 409 || status === 412) return exitCodes.conflict
  if (status === 429 || (status >= 502 && status <= 504)) return exitCodes.unreachable
  return status >= 400 && status < 500 ? exitCodes.usage : exitCodes.failed
}

const hints: Readonly<Record<string, string>> = {
  key_disabled: 'enable the key with another key: berth api-key update ID --no-disabled',
  insufficient_scope: 'use a key with the scope that the message names: berth context list shows the contexts',
  resource_exhausted: 'check the free resources: berth host list',
  host_offline: 'check the state of the host: berth host list',
  rate_limited: 'wait a moment and try again',
  address_denied: 'use an address that the key and the access policy allow',
}

/** Hint for the user if the gateway does not know the endpoint of a command. */
const otherVersion =
  'the gateway has another version than this program: compare berth gateway version and berth --version'

function hintOf(cause: RefusedError): string | undefined {
  const { code, taskId } = cause.refusal
  if (taskId !== undefined) return `the task continues; follow it with: berth task get ${taskId}`
  if (cause.status === 501) return otherVersion
  if (code === 'key_expired') return otherKeyHint(sourceOf(cause), 'another key')
  return hints[code] ?? (cause.status === 401 ? otherKeyHint(sourceOf(cause), 'a valid key') : undefined)
}

const unexpectedHint = (cause: UnexpectedAnswerError): string =>
  cause.location === undefined ? addressHint(sourceOf(cause)) : otherAddressHint(sourceOf(cause), cause.location)

const certificateCodes = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/

function unreachableError(cause: UnreachableError): CliError {
  return new CliError(exitCodes.unreachable, cause.message, unreachableHint(cause))
}

function unreachableHint(cause: UnreachableError): string | undefined {
  if (certificateCodes.test(cause.code)) return certificateHint(sourceOf(cause))
  if (/EPROTO|_SSL_/.test(cause.code)) return undefined // the message contains the next step
  return addressHint(sourceOf(cause))
}
