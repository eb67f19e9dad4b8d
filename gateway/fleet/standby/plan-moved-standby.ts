import type { GuestView, HostView } from '../reported.js'
import { isReady, isStored } from './plan-standbys.js'
import type { StoredStandby } from './standby-store.js'

export interface MovedFacts {
  /** Standby that an administrator has set. */
  readonly stored: StoredStandby
  /** True while the guest moves, or is restored on another host. */
  readonly isRelocating: boolean
  /** The former host of the guest. Undefined: it was removed from the fleet. */
  readonly former: Pick<HostView, 'name' | 'draining' | 'maintenance' | 'description'> | undefined
  /** Role of the former host, if it is online and still reports the guest. */
  readonly formerRole: string | undefined
}

/**
 * - `none`: the guest has its standby, or cannot have one at present.
 * - `wait`: the guest has lost its standby, and gets it when the move has ended.
 * - `set`: the guest gets its standby again, on this host.
 * - `end`: the guest is on the host of its standby now, and its former host cannot store the copy.
 */
export type MovedStep =
  | { readonly kind: 'none' | 'wait' }
  | { readonly kind: 'set'; readonly hostId: string }
  | { readonly kind: 'end'; readonly reason: string }

/** Decides what happens to a standby whose guest was moved. The guest's new host does not know the standby. */
export function planMoved(view: GuestView, facts: MovedFacts): MovedStep {
  const { stored, isRelocating, former, formerRole } = facts
  if (isStored(view, stored) || isUnknown(view, stored) || !isReady(view)) return { kind: 'none' }
  if (isRelocating) return { kind: 'wait' }
  if (stored.hostId !== view.hostId) return { kind: 'set', hostId: stored.hostId }
  const reason = unfitReason(former)
  if (reason !== undefined) return { kind: 'end', reason }
  // The former host refuses a copy until it has deleted the guest. It keeps a fenced guest until an operator deletes it.
  if (formerRole !== undefined && formerRole !== 'fenced') return { kind: 'wait' }
  return { kind: 'set', hostId: stored.fromHostId }
}

/**
 * True if the guest's host reports a standby that the store does not have, although the guest was not moved. This lasts
 * only for a moment, unless the gateway was killed while it changed the standby.
 */
export function isUnknown(view: GuestView, stored: StoredStandby | undefined): boolean {
  if (!view.guest.standby || isStored(view, stored)) return false
  return stored === undefined || stored.fromHostId === view.hostId
}

/** Returns why a host cannot store the copy. The features of a host that was never connected are not known. */
function unfitReason(former: MovedFacts['former']): string | undefined {
  if (!former) return 'the former host of the container was removed'
  const { name, draining, maintenance, description } = former
  if (draining) return `host ${name} is draining`
  if (maintenance.some(({ state }) => state === 'active')) return `host ${name} is in maintenance`
  if (description && !description.features.includes('standby')) return `the agent of host ${name} is too old`
  return undefined
}
