import type { ByteCounters, GuestNetwork } from '../../contract.js'
import { countersOf, type ElementId } from './plan-guest.js'

/** Returns the counters of guests by uuid. Omits guests for which a counter is missing. */
export function countersByGuest(
  guests: Iterable<GuestNetwork>,
  counted: ReadonlyMap<ElementId, number>,
): Map<string, ByteCounters> {
  const counters = new Map<string, ByteCounters>()
  for (const guest of guests) {
    const [rxBytes, txBytes] = countersOf(guest).map((id) => counted.get(id))
    // A counter is missing for a moment when another program has changed the tables.
    if (rxBytes !== undefined && txBytes !== undefined) counters.set(guest.uuid, { rxBytes, txBytes })
  }
  return counters
}
