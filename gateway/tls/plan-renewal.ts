import { renewAtMs } from '../pki/gateway-leaf.js'

/** Period in which a certificate is valid, in ms since 1970. */
export interface Validity {
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** Time in ms since 1970 at which to renew a certificate: after two thirds of its lifetime. */
export function dueAtMs({ notBeforeMs, notAfterMs }: Validity): number {
  return renewAtMs(notAfterMs, notAfterMs - notBeforeMs)
}

/** State of the attempts to replace the certificate with this fingerprint. */
export interface RenewalState {
  readonly fingerprint: string
  readonly failures: number
  /** Earliest time of the next attempt to renew the certificate, in ms since 1970. */
  readonly nextMs: number
  /** Error of the last attempt to renew the certificate. Empty: there was no attempt. */
  readonly error: string
}

export const noAttempts: RenewalState = { fingerprint: '', failures: 0, nextMs: 0, error: '' }

const hourMs = 3_600_000

/** Waiting times in ms after failed attempts: first one hour, doubled after each failure up to a day. */
export const renewalPauses = { firstMs: hourMs, lastMs: 24 * hourMs }
export type RenewalPauses = typeof renewalPauses

/** True if a certificate must be renewed now. @param attempts attempts to renew this certificate */
export function isRenewalDue(validity: Validity, attempts: RenewalState, nowMs: number): boolean {
  return nowMs >= dueAtMs(validity) && nowMs >= attempts.nextMs
}

/** Administrators are warned when this fraction of the lifetime is left. */
const warnedShare = 1 / 4

export function isEndNear({ notBeforeMs, notAfterMs }: Validity, nowMs: number): boolean {
  return notAfterMs - nowMs <= (notAfterMs - notBeforeMs) * warnedShare
}

export interface RenewalFailure {
  readonly fingerprint: string
  readonly error: string
  /** Waiting time that the authority requires. 0: it requires no waiting time. */
  readonly retryAfterSeconds: number
}

/** Returns the state after a failed renewal. @param before previous state, perhaps about an earlier certificate */
export function afterFailure(
  before: RenewalState,
  { fingerprint, error, retryAfterSeconds }: RenewalFailure,
  nowMs: number,
  { firstMs, lastMs }: RenewalPauses = renewalPauses,
): RenewalState {
  const failures = before.fingerprint === fingerprint ? before.failures + 1 : 1
  const pauseMs = Math.min(firstMs * 2 ** (failures - 1), lastMs)
  return { fingerprint, failures, nextMs: nowMs + Math.max(pauseMs, retryAfterSeconds * 1000), error }
}
