import type { ByteCounters, GuestNetwork } from '../../contract.js'
import { countersOf, type ElementId } from './plan-guest.js'

/** @returns the guests whose counters exist, by uuid */
export function countersByGuest(
  guests: Iterable<GuestNetwork>,
  counted: ReadonlyMap<ElementId, number>,
): Map<string, ByteCounters> {
  const counters = new Map<string, ByteCounters>()
  for (const guest of guests) {
    const [rxBytes, txBytes] = countersOf(guest).map((id) => counted.get(id))
    // A missing counter was lost a moment ago, when another program changed the tables.
    if (rxBytes !== undefined && txBytes !== undefined) counters.set(guest.uuid, { rxBytes, txBytes })
  }
  return counters
}
