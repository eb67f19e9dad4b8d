/**
 * The one error that crosses module and process borders. `code` is stable and public: API clients get it unchanged,
 * gRPC peers as the metadata entry `berth-code`.
 */
export type ErrorKind =
  | 'invalid' // the caller's input breaks a rule
  | 'unauthenticated'
  | 'forbidden'
  | 'not_found'
  | 'conflict' // the state does not allow it now
  | 'exhausted' // a pool or limit is used up
  | 'unavailable' // try again
  | 'timeout'
  | 'unsupported' // this version has no such endpoint
  | 'internal' // our bug or the host's fault; details stay in the log

export interface ErrorOptions {
  cause?: unknown
  /** Name of the invalid input field, as the API spells it. */
  field?: string
  /** The task that carries out the request, although this answer is an error. */
  taskId?: string
  /** Seconds after which another attempt may succeed. */
  retryAfterSeconds?: number
}

export class BerthError extends Error {
  override readonly name = 'BerthError'
  readonly field: string | undefined
  readonly taskId: string | undefined
  readonly retryAfterSeconds: number | undefined
  /** The requested change was rolled back: the former state is in force. */
  undone = false

  constructor(
    readonly kind: ErrorKind,
    readonly code: string,
    message: string,
    options: ErrorOptions = {},
  ) {
    super(message, { cause: options.cause })
    this.field = options.field
    this.taskId = options.taskId
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

export function invalidField(field: string, message: string): BerthError {
  return new BerthError('invalid', 'invalid_field', message, { field })
}

export function notFound(what: string): BerthError {
  return new BerthError('not_found', 'not_found', `${what} not found`)
}

export function conflict(code: string, message: string): BerthError {
  return new BerthError('conflict', code, message)
}

/** Converts anything thrown to a BerthError; `internal_error` if it is not one already. */
export function toBerthError(error: unknown, step: string): BerthError {
  if (error instanceof BerthError) return error
  return new BerthError('internal', 'internal_error', step, { cause: error })
}

/** Wraps work so that what it throws becomes a BerthError that names the step. */
export function asStep<T>(step: string, work: () => Promise<T>): () => Promise<T> {
  return async () => {
    try {
      return await work()
    } catch (cause) {
      throw toBerthError(cause, step)
    }
  }
}

/** An unusable configuration file; the message names it and the key. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** The messages of an error and its causes, outermost first, for logs and operation records. */
export function describeError(error: unknown): string {
  const parts: string[] = []
  for (let at: unknown = error; at !== undefined && at !== null; at = at instanceof Error ? at.cause : undefined) {
    parts.push(at instanceof Error ? at.message : typeof at === 'string' ? at : JSON.stringify(at))
  }
  return parts.join(': ')
}
