/* Errors of requests. */

/** The content of an answer with an error. */
export interface Refusal {
  readonly message: string
  /** Stable code of the API, or `http_` with the status if the answer is not from a gateway. */
  readonly code: string
  /** Name of the wrong field. */
  readonly field?: string
  /** Id of the task that continues although the request failed. */
  readonly taskId?: string
  readonly requestId?: string
}

/** The gateway refused a request. */
export class RefusedError extends Error {
  override readonly name: string = 'RefusedError'

  constructor(
    readonly status: number,
    readonly refusal: Refusal,
    /** Seconds after which the gateway suggests another attempt. */
    readonly retryAfterSeconds?: number,
  ) {
    super(`${refusal.message} (${refusal.code})`)
  }

  get code(): string {
    return this.refusal.code
  }
}

/** The gateway did not answer. */
export class UnreachableError extends Error {
  override readonly name: string = 'UnreachableError'

  constructor(
    message: string,
    /** Error code of Node.js, such as `ECONNREFUSED`; empty: the error has no code. */
    readonly code: string,
    /** True if the gateway has possibly received the request. */
    readonly wasSent: boolean,
  ) {
    super(message)
  }
}

/** The answer is not from a gateway of Berth, or redirects to another address. */
export class UnexpectedAnswerError extends Error {
  override readonly name: string = 'UnexpectedAnswerError'

  /** @param location address to which the answer redirects */
  constructor(
    message: string,
    readonly location?: string,
  ) {
    super(message)
  }
}

/** The caller allowed a maximum time for a wait, and this time is over. */
export class TimeoutError extends Error {
  override readonly name: string = 'TimeoutError'
}

/** True if the same request can succeed later: the gateway is unreachable or overloaded, or has an internal error. */
export function isTemporary(cause: unknown): boolean {
  if (cause instanceof UnreachableError) return true
  return cause instanceof RefusedError && (cause.status === 429 || (cause.status >= 500 && cause.status !== 501))
}
