import type { ByteCounters, GuestNetwork } from '../contract.js'
import { countersOf, type ElementId } from './plan-guest.js'

/** Of guests whose counters are there, by uuid. */
export function countersByGuest(
  guests: Iterable<GuestNetwork>,
  counted: ReadonlyMap<ElementId, number>,
): Map<string, ByteCounters> {
  const counters = new Map<string, ByteCounters>()
  for (const guest of guests) {
    const [rxBytes, txBytes] = countersOf(guest).map((id) => counted.get(id))
    // One that is missing was lost with others' changes a moment ago.
    if (rxBytes !== undefined && txBytes !== undefined) counters.set(guest.uuid, { rxBytes, txBytes })
  }
  return counters
}
