import { BerthError } from '../../shared/errors.js'
import type { GuestRates } from '../network/contract.js'
import type { GuestContext } from './context.js'
import type { GuestRecord } from './record.js'
import type { GuestStore } from './store.js'

type Judged = Pick<GuestRecord, 'policy' | 'traffic'>

/** Why the guest may not run; empty: it may. */
export function policyReasonOf({ policy, traffic }: Judged): string {
  const reasons = [
    policy.expired && 'expired',
    policy.overQuota && traffic.action === 'stop' && 'traffic quota used up',
    policy.abuse !== undefined && `security: ${policy.abuse}`,
  ]
  return reasons.filter((reason) => reason !== false).join(', ')
}

/** Whether the guest's rate is limited because its quota is used up. */
export function isThrottled({ policy, traffic }: Judged): boolean {
  return policy.overQuota && traffic.action === 'throttle'
}

/** @throws {BerthError} `policy_blocked` */
export function checkAllowed(judged: Judged): void {
  const reason = policyReasonOf(judged)
  if (reason !== '')
    throw new BerthError('forbidden', 'policy_blocked', `the container is blocked: ${reason}`)
}

/**
 * Refuses like `checkAllowed`, but an order that may lift it ends a block for abuse. Joins the caller's transaction.
 * @throws {BerthError} `policy_blocked`
 */
export function allowOrLift(store: GuestStore, record: GuestRecord, mayLift: boolean): void {
  const { abuse, ...policy } = record.policy
  if (!mayLift || abuse === undefined) return checkAllowed(record)
  checkAllowed({ ...record, policy })
  liftAbuse(store, record)
}

/** Ends a block for abuse, whatever else the guest may be blocked for. Joins the caller's transaction. */
export function liftAbuse(store: GuestStore, { uuid, policy: { abuse, ...policy } }: GuestRecord): void {
  if (abuse !== undefined) store.update(uuid, { policy })
}

/** The rates in force now: as sold, lower while the guest is throttled, cut off while it may not run. */
export function ratesOf(
  record: GuestRecord,
  { config, deviceOf }: Pick<GuestContext, 'config' | 'deviceOf'>,
): GuestRates {
  const { networkDownMbps, networkUpMbps } = record.spec.limits
  const throttle = isThrottled(record) ? record.traffic.throttleMbps || config.traffic.throttle_mbps : 0
  return {
    device: deviceOf(record.id),
    downMbps: lower(networkDownMbps, throttle),
    upMbps: lower(networkUpMbps, throttle),
    cut: policyReasonOf(record) !== '',
  }
}

/** The lower of two rates; 0 is unlimited. */
function lower(a: number, b: number): number {
  return a === 0 || b === 0 ? a + b : Math.min(a, b)
}
