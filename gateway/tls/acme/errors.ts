import { BerthError } from '../../../shared/errors.js'

export const acmeCodes = ['acme_refused', 'acme_rate_limited', 'acme_unavailable', 'acme_timeout'] as const

/** A problem as an ACME server reports it (RFC 7807). */
export interface Problem {
  readonly type?: string
  readonly detail?: string
}

const prefix = 'urn:ietf:params:acme:error:'
const maxDetail = 300

/** Type of a problem without its prefix, for example `badNonce`. */
export function problemKind(problem: Problem | undefined): string {
  return typeof problem?.type === 'string' ? printable(problem.type.replace(prefix, '')) : ''
}

/** Message of the authority, shortened and limited to printable characters. */
export function problemText(problem: Problem | undefined): string {
  const detail = typeof problem?.detail === 'string' ? printable(problem.detail) : ''
  return [problemKind(problem), detail].filter(Boolean).join(': ') || 'no reason given'
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, maxDetail)
}

export function acmeRefused(problem: Problem | undefined): BerthError {
  const message = `the certificate authority refused the request: ${problemText(problem)}`
  return new BerthError('conflict', 'acme_refused', message)
}

export function acmeUnavailable(why: string, options: { retryAfterSeconds?: number; cause?: unknown } = {}) {
  const message = `the certificate authority cannot be reached: ${printable(why)}`
  return new BerthError('unavailable', 'acme_unavailable', message, options)
}

/** @param retryAfterSeconds waiting time that the authority requires; default: an hour */
export function acmeRateLimited(problem: Problem | undefined, retryAfterSeconds = 3600): BerthError {
  const message = `the certificate authority received too many requests: ${problemText(problem)}`
  return new BerthError('unavailable', 'acme_rate_limited', message, { retryAfterSeconds })
}

export function acmeTimeout(cause: unknown): BerthError {
  const message = 'the certificate authority did not finish in time: nothing was changed'
  return new BerthError('timeout', 'acme_timeout', message, { cause })
}

/**
 * Parses Retry-After, which is a number of seconds or a date (RFC 9110, 10.2.3).
 * @returns seconds, at most a week; undefined: the header is missing
 */
export function parseRetryAfter(text: unknown, nowMs = Date.now()): number | undefined {
  if (typeof text !== 'string') return undefined
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - nowMs) / 1000)
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), 604_800) : undefined
}
