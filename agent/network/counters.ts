import type { ByteCounters, GuestNetwork } from './contract.js'
import type { ElementId } from './plan-guest.js'

/** Of guests whose counters are there, by uuid: all addresses of a guest together. */
export function sumCounters(
  guests: Iterable<GuestNetwork>,
  counted: ReadonlyMap<ElementId, number>,
): Map<string, ByteCounters> {
  const counters = new Map<string, ByteCounters>()
  for (const { uuid, ipv4, ipv6Addresses } of guests) {
    const bytesOf = (way: 'received' | 'sent'): (number | undefined)[] => [
      counted.get(`${way} ${ipv4}`),
      ...ipv6Addresses.map((address) => counted.get(`${way}6 ${address}`)),
    ]
    const [received, sent] = [bytesOf('received'), bytesOf('sent')]
    // One that is missing was lost with others' changes a moment ago: no sum would be true.
    if ([...received, ...sent].some((bytes) => bytes === undefined)) continue
    counters.set(uuid, { rxBytes: sum(received), txBytes: sum(sent) })
  }
  return counters
}

function sum(bytes: readonly (number | undefined)[]): number {
  return bytes.reduce<number>((total, value) => total + (value ?? 0), 0)
}
