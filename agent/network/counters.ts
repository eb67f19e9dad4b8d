import type { ByteCounters, GuestNetwork } from './contract.js'
import { countersOf } from './plan-change.js'

/** Of guests whose counters are there, by uuid. */
export function countersByGuest(
  guests: Iterable<Pick<GuestNetwork, 'uuid' | 'device'>>,
  counted: ReadonlyMap<string, number>,
): Map<string, ByteCounters> {
  const counters = new Map<string, ByteCounters>()
  for (const { uuid, device } of guests) {
    const [rxBytes, txBytes] = countersOf(device).map((name) => counted.get(name))
    // One that is missing was lost with others' changes a moment ago.
    if (rxBytes !== undefined && txBytes !== undefined) counters.set(uuid, { rxBytes, txBytes })
  }
  return counters
}
