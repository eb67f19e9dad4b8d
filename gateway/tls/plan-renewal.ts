import { renewAtMs } from '../pki/gateway-leaf.js'

/** From when to when a certificate holds. */
export interface Validity {
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** Time to replace a certificate: after two thirds of its life. */
export function dueAtMs({ notBeforeMs, notAfterMs }: Validity): number {
  return renewAtMs(notAfterMs, notAfterMs - notBeforeMs)
}

/** What became of the attempts to renew the certificate with this fingerprint. */
export interface RenewalState {
  readonly fingerprint: string
  readonly failures: number
  /** No attempt before this. */
  readonly nextMs: number
  /** Of the last one. */
  readonly error: string
}

export const noAttempts: RenewalState = { fingerprint: '', failures: 0, nextMs: 0, error: '' }

const hourMs = 3_600_000

/** Pauses after failures: an hour, doubled up to a day. */
export const renewalPauses = { firstMs: hourMs, lastMs: 24 * hourMs }
export type RenewalPauses = typeof renewalPauses

/** Whether a certificate is to be renewed now. @param attempts those of this certificate */
export function isRenewalDue(validity: Validity, attempts: RenewalState, nowMs: number): boolean {
  return nowMs >= dueAtMs(validity) && nowMs >= attempts.nextMs
}

/** Share of the lifetime at whose rest an administrator is warned. */
const warnedShare = 1 / 4

export function isEndNear({ notBeforeMs, notAfterMs }: Validity, nowMs: number): boolean {
  return notAfterMs - nowMs <= (notAfterMs - notBeforeMs) * warnedShare
}

export interface RenewalFailure {
  readonly fingerprint: string
  readonly error: string
  /** As the authority said; 0: nothing. */
  readonly retryAfterSeconds: number
}

/** The state after a failed attempt. @param before of the same or of another certificate */
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
