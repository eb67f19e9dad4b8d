import { renewAtMs } from '../pki/gateway-leaf.js'

/** The period in which a certificate is valid. */
export interface Validity {
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** Time to replace a certificate: after two thirds of its life. */
export function dueAtMs({ notBeforeMs, notAfterMs }: Validity): number {
  return renewAtMs(notAfterMs, notAfterMs - notBeforeMs)
}

/** The state of the attempts to renew the certificate with this fingerprint. */
export interface RenewalState {
  readonly fingerprint: string
  readonly failures: number
  /** Time of the next attempt. */
  readonly nextMs: number
  /** Error of the last attempt. */
  readonly error: string
}

export const noAttempts: RenewalState = { fingerprint: '', failures: 0, nextMs: 0, error: '' }

const hourMs = 3_600_000

/** Pauses after failures: an hour, doubled up to a day. */
export const renewalPauses = { firstMs: hourMs, lastMs: 24 * hourMs }
export type RenewalPauses = typeof renewalPauses

/** True if a certificate must be renewed now. @param attempts those of this certificate */
export function isRenewalDue(validity: Validity, attempts: RenewalState, nowMs: number): boolean {
  return nowMs >= dueAtMs(validity) && nowMs >= attempts.nextMs
}

/** An administrator is warned when this share of the lifetime is left. */
const warnedShare = 1 / 4

export function isEndNear({ notBeforeMs, notAfterMs }: Validity, nowMs: number): boolean {
  return notAfterMs - nowMs <= (notAfterMs - notBeforeMs) * warnedShare
}

export interface RenewalFailure {
  readonly fingerprint: string
  readonly error: string
  /** From the authority; 0: none. */
  readonly retryAfterSeconds: number
}

/** The state after a failed attempt. @param before state of the same or of another certificate */
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
