import { RefusedError, UnreachableError } from './errors.js'

/* This module decides whether a failed request is sent again. */

export interface RetryLimits {
  /** Maximum number of times that a request is sent. */
  readonly attempts: number
  /** Maximum number of attempts while no connection can be established. */
  readonly connectAttempts: number
  /** Longest pause in ms before a repetition. If a longer pause is needed, the request fails. */
  readonly maxDelayMs: number
}

export interface FailedAttempt {
  readonly method: string
  /** True if the request has `If-Match`. If the first attempt was carried out, the repetition would be refused. */
  readonly isConditional: boolean
  /** Number of times that the request was sent, including this one. */
  readonly attempt: number
  readonly error: unknown
}

const firstPauseMs = 500
/** Error codes of requests that are not repeated, because an offline host can need days to come online. */
const notRepeated = new Set(['host_offline'])

/** Returns the time in ms after which the request is sent again; undefined: it is not sent again. */
export function planRetry(failed: FailedAttempt, limits: RetryLimits): number | undefined {
  const { error, attempt } = failed
  const attempts = isUnsent(error) ? limits.connectAttempts : limits.attempts
  if (attempt >= attempts || !mayRepeat(failed)) return undefined
  const given = error instanceof RefusedError ? error.retryAfterSeconds : undefined
  const pauseMs = given === undefined ? firstPauseMs * 2 ** (attempt - 1) : given * 1000
  return pauseMs <= limits.maxDelayMs ? pauseMs : undefined
}

function mayRepeat(failed: FailedAttempt): boolean {
  const { error } = failed
  if (error instanceof UnreachableError) return !error.wasSent || isIdempotent(failed)
  if (!(error instanceof RefusedError)) return false
  if (error.status === 429) return true // the gateway has not carried it out
  return isIdempotent(failed) && (error.status === 503 || isFirstAttemptRunning(failed)) && !notRepeated.has(error.code)
}

/** True if a repetition is safe. POST has an Idempotency-Key. A second DELETE gets 404; a second PATCH can do more. */
function isIdempotent({ method, isConditional }: FailedAttempt): boolean {
  return method === 'GET' || method === 'POST' || (method === 'PUT' && !isConditional)
}

/** True if the gateway refused a repetition because it still carries out the first attempt. */
function isFirstAttemptRunning({ error, attempt }: FailedAttempt): boolean {
  return attempt > 1 && error instanceof RefusedError && error.code === 'task_running'
}

const isUnsent = (error: unknown): boolean => error instanceof UnreachableError && !error.wasSent
