/**
 * The kind of an error. BerthError is the only error that crosses modules and processes. Its `code` is stable and
 * public: API clients receive it unchanged, gRPC peers receive it as the metadata entry `berth-code`.
 */
export type ErrorKind =
  | 'invalid' // the caller's input violates a rule
  | 'unauthenticated'
  | 'forbidden'
  | 'not_found'
  | 'conflict' // the current state does not allow the request
  | 'exhausted' // a pool or limit is used up
  | 'unavailable' // try again later
  | 'timeout'
  | 'unsupported' // this version has no such endpoint
  | 'internal' // a bug in Berth or a fault of the host; details stay in the log

/** The rule that a request violates. Clients that translate errors choose a text by its name. */
export interface ErrorRule {
  /** Stable name, such as `range`. */
  readonly name: string
  /** Limits of the rule and amounts, by name. Units follow from the rule. */
  readonly values?: Readonly<Record<string, string | number>>
}

export interface ErrorOptions {
  cause?: unknown
  /** Name of the invalid input field, as the API spells it. */
  field?: string
  rule?: ErrorRule
  /** Message for callers that may not read hosts. They get no rule. Absent: the message contains nothing about hosts. */
  messageWithoutHosts?: string
  /** The task that carries out the request even though the response is an error. */
  taskId?: string
  /** Seconds after which another attempt can succeed. */
  retryAfterSeconds?: number
}

export class BerthError extends Error {
  override readonly name = 'BerthError'
  readonly field: string | undefined
  readonly rule: ErrorRule | undefined
  readonly messageWithoutHosts: string | undefined
  readonly taskId: string | undefined
  readonly retryAfterSeconds: number | undefined
  /** True if the requested change was rolled back and the previous state is in effect. */
  undone = false

  constructor(
    readonly kind: ErrorKind,
    readonly code: string,
    message: string,
    options: ErrorOptions = {},
  ) {
    super(message, { cause: options.cause })
    this.field = options.field
    this.rule = options.rule
    this.messageWithoutHosts = options.messageWithoutHosts
    this.taskId = options.taskId
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

export function invalidField(field: string, message: string, rule?: ErrorRule): BerthError {
  return new BerthError('invalid', 'invalid_field', message, { field, ...(rule && { rule }) })
}

/** Returns the error with another field and message, for an object that is part of a larger one. */
export function inOtherField(error: BerthError, field: string, message: string): BerthError {
  const { kind, code, rule, messageWithoutHosts: hidden } = error
  const options = { field, cause: error, ...(rule && { rule }) }
  if (hidden === undefined) return new BerthError(kind, code, message, options)
  const messageWithoutHosts = message.replace(error.message, () => hidden)
  return new BerthError(kind, code, message, { ...options, messageWithoutHosts })
}

export function notFound(what: string): BerthError {
  return new BerthError('not_found', 'not_found', `${what} not found`)
}

export function conflict(code: string, message: string): BerthError {
  return new BerthError('conflict', code, message)
}

/** Converts any thrown value to a BerthError. All values except a BerthError become `internal_error`. */
export function toBerthError(error: unknown, step: string): BerthError {
  if (error instanceof BerthError) return error
  return new BerthError('internal', 'internal_error', step, { cause: error })
}

/** Wraps work: every error that it throws becomes a BerthError that names the step. @param step begins with a verb */
export function asStep<T>(step: string, work: () => Promise<T>): () => Promise<T> {
  return async () => {
    try {
      return await work()
    } catch (cause) {
      throw toBerthError(cause, `could not ${step}`)
    }
  }
}

/** An unusable configuration file. The message names the file and the key. */
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
