import type { Guest, GuestStandby } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { StandbyCopy } from '../../../proto/gen/berth/agent/v1/move.js'
import { standbyLimits } from '../../../shared/standby-rules.js'
import { isDeleted } from '../guest-status.js'
import type { UsableStandby } from '../move-contract.js'
import type { GuestView } from '../reported.js'
import type { StoredStandby } from './standby-store.js'

const minuteMs = 60_000
/** Maximum delay in ms before the next attempt after a failure. */
const retryMs = 5 * minuteMs

/** Maximum number of increments that one host receives at a time. */
const perTarget = 2

/**
 * True if the next increment of the guest is due.
 * @param resultMs time at which this gateway learned of the last result; the clocks of hosts can be wrong
 */
export function isDue(view: GuestView, resultMs: number, nowMs: number): boolean {
  const { standby } = view.guest
  return standby !== undefined && isReady(view) && nowMs >= nextAttemptMs(standby, resultMs)
}

/** True if the guest can have a standby at present. */
export function isReady({ guest, online }: GuestView): boolean {
  const { virtualization, ownership, status } = guest
  if (!online || virtualization !== 'lxc' || isDeleted(guest)) return false
  if (ownership && ownership.role !== 'owner') return false
  return !['creating', 'deleting', 'error'].includes(status)
}

/** True if an administrator has set the standby that the guest's host reports. A host could invent standbys. */
export function isStored({ hostId, guest: { standby } }: GuestView, stored: StoredStandby | undefined): boolean {
  if (!standby || stored?.fromHostId !== hostId) return false
  return stored.standbyId === standby.standbyId && stored.hostId === standby.hostId
}

/** Time of the next attempt. @param resultMs time of the last result; 0: there was none */
export function nextAttemptMs({ intervalMinutes, failures }: GuestStandby, resultMs: number): number {
  const { min, max } = standbyLimits.intervalMinutes
  // A hostile host could report an interval of 0, to have its increments ordered without a pause.
  const intervalMs = Math.min(max, Math.max(min, intervalMinutes)) * minuteMs
  return resultMs + (failures > 0 ? Math.min(intervalMs, retryMs) : intervalMs)
}

/** The last result of an increment, and when this gateway learned of it. */
export interface SeenResult {
  readonly standbyId: string
  readonly triedAtMs: number
  readonly seenMs: number
}

/** For a standby that the gateway does not know yet, takes the time that the host reports, but at most the present. */
export function planSeen(
  known: SeenResult | undefined,
  { standbyId, triedAtMs }: Pick<GuestStandby, 'standbyId' | 'triedAtMs'>,
  nowMs: number,
): SeenResult {
  const isKnown = known?.standbyId === standbyId
  if (isKnown && known.triedAtMs === triedAtMs) return known
  return { standbyId, triedAtMs, seenMs: isKnown ? nowMs : Math.min(triedAtMs, nowMs) }
}

/**
 * Chooses the increments to order, of those that are due. A running increment is ordered again, in case its order was
 * lost.
 * @param running guests whose increment was ordered and has not ended
 */
export function planOrders(due: readonly GuestView[], running: readonly GuestView[]): GuestView[] {
  const counts = new Map<string, number>()
  const count = ({ guest }: GuestView): number => {
    const number = (counts.get(guest.standby!.hostId) ?? 0) + 1
    counts.set(guest.standby!.hostId, number)
    return number
  }
  running.forEach(count)
  const again = new Set(running.map(({ guest }) => guest.uuid))
  return due.filter((view) => again.has(view.guest.uuid) || count(view) <= perTarget)
}

/**
 * True if a guest was certainly deleted: its host is online and does not report it, and the store has no such guest. If
 * only the store lacks the guest, its host was possibly removed by force, or the store was replaced by an empty one.
 * @param source host that last had the guest. Undefined: it is not in the fleet
 */
export function isGone(source: SourceFacts | undefined, isRegistered: boolean): boolean {
  return source !== undefined && source.online && !source.hasGuest && !isRegistered
}

export interface SourceFacts {
  /** True only after the complete report of the host. */
  readonly online: boolean
  /** True if the host reports the guest, even if the guest is hidden. */
  readonly hasGuest: boolean
}

export interface CopyFacts {
  /** The guest, as its host reports it. Undefined: no host reports it. */
  readonly guest: GuestView | undefined
  /** True if the guest no longer exists. */
  readonly isGone: boolean
  /** True while the guest moves, or is restored on another host. */
  readonly isRelocating: boolean
}

/**
 * True if a copy on a host is not needed any more. The copy of a guest whose host is offline stays. The copy of a broken
 * guest stays, too, because it can be the only good state of its disk.
 */
export function isStale(copy: StandbyCopy, hostId: string, { guest, isGone, isRelocating }: CopyFacts): boolean {
  if (isRelocating) return false
  if (!guest) return isGone
  const { standby, status } = guest.guest
  if (!guest.online || status === 'error') return false
  return standby?.standbyId !== copy.standbyId || standby.hostId !== hostId
}

/** Finds the complete copy that belongs to the standby of the guest. @param copies copies on the host of the standby */
export function findUsable(
  { hostId: fromHostId, guest }: { readonly hostId: string; readonly guest: Pick<Guest, 'uuid' | 'standby'> },
  copies: readonly StandbyCopy[],
  nowMs: number,
): UsableStandby | undefined {
  const { uuid, standby } = guest
  if (!standby || standby.takenAtMs === 0) return undefined
  const { standbyId, hostId } = standby
  const takenAtMs = Math.min(standby.takenAtMs, nowMs) // the clock of the host can be wrong
  const isOf = (copy: StandbyCopy): boolean =>
    copy.uuid === uuid && copy.standbyId === standbyId && copy.fromHostId === fromHostId && copy.complete
  return copies.some(isOf) ? { standbyId, hostId, takenAtMs } : undefined
}
