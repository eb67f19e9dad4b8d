import { BerthError } from '../../../shared/errors.js'
import type { GuestRates } from '../../network/contract.js'
import type { AgentConfig } from '../../config.js'
import { deviceName } from '../../network/addresses/private-ipv4.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'

type PolicyFacts = Pick<GuestRecord, 'policy' | 'traffic' | 'suspension'>

export type Block = 'suspended' | 'expired' | 'traffic' | 'security'

/** Returns all reasons why the guest is suspended. Each reason ends separately. */
export function blocksOf({ policy, traffic, suspension }: PolicyFacts): Block[] {
  const blocks: Readonly<Record<Block, boolean>> = {
    suspended: Boolean(suspension),
    expired: policy.expired,
    traffic: policy.overQuota && traffic.action === 'stop',
    security: policy.abuse !== undefined,
  }
  return (Object.keys(blocks) as Block[]).filter((block) => blocks[block])
}

/** Returns the reasons why the guest is suspended, as text for users. Empty: the guest is not suspended. */
export function policyReasonOf(judged: PolicyFacts): string {
  const texts: Readonly<Record<Block, string>> = {
    suspended: 'suspended',
    expired: 'expired',
    traffic: 'traffic quota used up',
    security: `security: ${judged.policy.abuse ?? ''}`,
  }
  return blocksOf(judged)
    .map((block) => texts[block])
    .join(', ')
}

/** True if nothing forbids the guest to run. A suspension in mode `network` only disconnects a running guest. */
export function isAllowedToRun(judged: PolicyFacts): boolean {
  const onlyCutOff = judged.suspension?.mode === 'network'
  return blocksOf(judged).every((block) => block === 'suspended' && onlyCutOff)
}

/** True if the guest should run and is allowed to run. */
export function mayRun(record: PolicyFacts & Pick<GuestRecord, 'wanted'>): boolean {
  return record.wanted === 'running' && isAllowedToRun(record)
}

/** True if the guest's rate is limited because its quota is used up. */
export function isThrottled({ policy, traffic }: PolicyFacts): boolean {
  return policy.overQuota && traffic.action === 'throttle'
}

/**
 * Refuses a guest that an administrator has suspended, for actions that are then forbidden even to administrators.
 * @throws {BerthError} `policy_blocked`
 */
export function refuseSuspended({ suspension }: Pick<GuestRecord, 'suspension'>): void {
  if (suspension) throw new BerthError('forbidden', 'policy_blocked', 'the container is suspended: unsuspend it first')
}

/** Refuses a guest that is suspended for any reason. @throws {BerthError} `policy_blocked` */
export function checkAllowed(judged: PolicyFacts): void {
  refuseSuspended(judged)
  const reason = policyReasonOf(judged)
  if (reason !== '') throw new BerthError('forbidden', 'policy_blocked', `the container is blocked: ${reason}`)
}

/**
 * Refuses a start by the agent itself, for example after a reboot of the host, if the guest is not allowed to run. A
 * guest that an administrator has suspended in mode `network` is allowed to run.
 * @throws {BerthError} `policy_blocked`
 */
export function checkAllowedToRun(judged: PolicyFacts): void {
  if (!isAllowedToRun(judged)) checkAllowed(judged)
}

/**
 * Refuses a suspended guest. With `mayLift`, ends a suspension for which abuse is the only reason. Joins the caller's
 * transaction.
 * @throws {BerthError} `policy_blocked`
 */
export function allowOrLift(store: GuestStore, record: GuestRecord, mayLift: boolean): void {
  const { abuse, ...policy } = record.policy
  if (!mayLift || abuse === undefined) return checkAllowed(record)
  checkAllowed({ ...record, policy })
  liftAbuse(store, record)
}

/** Ends a suspension for abuse. A suspension for another reason stays. Joins the caller's transaction. */
export function liftAbuse(store: GuestStore, { uuid, policy: { abuse, ...policy } }: GuestRecord): void {
  if (abuse !== undefined) store.update(uuid, { policy })
}

/** Returns the guest's network rates. They are lower for a throttled guest. `cut`: true if the guest is suspended. */
export function ratesOf(record: GuestRecord, config: AgentConfig): GuestRates {
  const { networkDownMbps, networkUpMbps } = record.spec.limits
  const throttle = isThrottled(record) ? record.traffic.throttleMbps || config.traffic.throttle_mbps : 0
  return {
    device: deviceName(config.network.interface_prefix, record.id),
    downMbps: lower(networkDownMbps, throttle),
    upMbps: lower(networkUpMbps, throttle),
    cut: policyReasonOf(record) !== '',
  }
}

/** Returns the lower of two rates, where 0 means unlimited. */
function lower(a: number, b: number): number {
  return a === 0 || b === 0 ? a + b : Math.min(a, b)
}
