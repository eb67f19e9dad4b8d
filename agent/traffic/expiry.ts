import type { SteadyClock } from '../../shared/steady-clock.js'
import type { GuestPolicy, GuestRecord } from '../guests/record/record.js'

/** A clock that knows whether its time may be wrong. While it may be wrong, no guest expires and no suspension ends. */
export type UncertainClock = Pick<SteadyClock, 'earliest' | 'latest' | 'isSettled'>

/** True if the guest's suspension has an end that has passed. False while the clock may be wrong. */
export function isLiftDue({ suspension }: GuestRecord, clock: UncertainClock): boolean {
  const untilMs = suspension?.untilMs ?? 0
  return untilMs > 0 && clock.isSettled() && clock.earliest() >= untilMs
}

/** Returns the guest's policy, with the results of the checks of its expiry and its quota. */
export function policyOf(record: GuestRecord, overQuota: boolean, clock: UncertainClock): GuestPolicy {
  const { stoppedForExpiryMs, expiredForMs: _former, ...policy } = record.policy
  const expired = isExpired(record, clock)
  const stopped = expired && (policy.expired ? stoppedForExpiryMs : stoppedFor(record))
  return {
    ...policy,
    expired,
    overQuota,
    ...(expired && { expiredForMs: record.expiresAtMs }),
    ...(stopped && { stoppedForExpiryMs: stopped }),
  }
}

/** True if the guest has expired. While the clock may be wrong, the result changes only if `expiresAtMs` changes. */
function isExpired({ expiresAtMs, policy }: GuestRecord, clock: UncertainClock): boolean {
  if (expiresAtMs === 0) return false
  const isUnchanged = (policy.expiredForMs ?? expiresAtMs) === expiresAtMs
  // The host may have lost the time while it was off. Until the clock is right again, an expired guest must not start.
  if (policy.expired && isUnchanged && !clock.isSettled()) return true
  if (policy.expired) return clock.latest() >= expiresAtMs
  return clock.isSettled() && clock.earliest() >= expiresAtMs
}

function stoppedFor({ wanted, expiresAtMs }: GuestRecord): number | undefined {
  return wanted === 'running' ? expiresAtMs : undefined
}
