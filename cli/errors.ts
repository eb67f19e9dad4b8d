/* Errors that the program reports, and its exit codes. The codes never change, because docs/cli.md documents them. */

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  unreachable: 6,
  /** Ctrl-C, as shells report it. */
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

export const usageError = (message: string, hint?: string): CliError => new CliError(exitCodes.usage, message, hint)

/** The content of an answer with an error. */
export interface Refusal {
  readonly message: string
  readonly code: string
  readonly field?: string
  readonly taskId?: string
  readonly requestId?: string
}

/** An answer of the gateway with an error. */
export class RefusedError extends CliError {
  constructor(
    readonly status: number,
    readonly refusal: Refusal,
  ) {
    const { message, code } = refusal
    super(exitCodeOf(status), `${message} (${code})`, hintOf(status, refusal))
  }
}

export function exitCodeOf(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.notAllowed
  if (status === 404) return exitCodes.notFound
  if (status === 409 || status === 412) return exitCodes.conflict
  if (status === 429 || (status >= 502 && status <= 504)) return exitCodes.unreachable
  return status >= 400 && status < 500 ? exitCodes.usage : exitCodes.failed
}

const hints: Readonly<Record<string, string>> = {
  unauthorized: 'log in with a valid key: berth login URL',
  key_disabled: 'enable the key with another key: berth api-key update ID --no-disabled',
  key_expired: 'log in with another key: berth login URL',
  insufficient_scope: 'use a key with the scope that the message names: berth context list shows the contexts',
  resource_exhausted: 'check the free resources: berth host list',
  host_offline: 'check the state of the host: berth host list',
  rate_limited: 'wait a moment and try again',
  address_denied: 'use an address that the key and the access policy allow',
}

function hintOf(status: number, { code, taskId }: Refusal): string | undefined {
  if (taskId !== undefined) return `the task continues; follow it with: berth task get ${taskId}`
  return hints[code] ?? (status === 401 ? hints['unauthorized'] : undefined)
}
