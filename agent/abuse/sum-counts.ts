import { parseAddress } from '../../shared/addresses.js'
import type { CountedElement } from '../host/net/counted-elements.js'
import { formatIpv4 } from '../network/subnet.js'
import type { amplifierCounters, WatchCounter } from '../network/nft/ruleset/plan-watch-table.js'
import type { WatchedGuest } from './contract.js'
import { noCounts, type ServiceTraffic, type PacketCounts } from './plan-counts.js'

type AmplifierCounter = (typeof amplifierCounters)[number]
type WatchedCounter = WatchCounter | AmplifierCounter

/** Names of nft sets with counters. `WatchedCounter`: in the watch table (`6`: for IPv6). Others: in guests' rules. */
export type CountedName = WatchedCounter | `${WatchedCounter}6` | 'sent' | 'received' | 'limited' | 'forged'

type GuestCounter = CountedElement<CountedName>

/** Returns each guest's packet counts: sums over its device, MAC and addresses. Omits guests without counters. */
export function sumCounts(
  guests: readonly WatchedGuest[],
  elements: readonly GuestCounter[],
): ReadonlyMap<string, PacketCounts> {
  const owners = new Map(
    guests.flatMap(({ uuid, device, mac, ipv4, ipv6Addresses }) =>
      [device, mac, ipv4, ...ipv6Addresses].map((name): [string, string] => [name, uuid]),
    ),
  )
  const counts = new Map<string, Sums>()
  for (const element of elements) {
    const uuid = owners.get(ownerIn(element))
    if (uuid === undefined) continue
    const sums = counts.get(uuid) ?? { ...noCounts, amplified: new Map<number, ServiceTraffic>() }
    counts.set(uuid, sums)
    add(sums, element)
  }
  return counts
}

type Sums = { -readonly [Name in keyof Omit<PacketCounts, 'amplified'>]: number } & {
  readonly amplified: Map<number, ServiceTraffic>
}

function add(sums: Sums, { set, key, bytes, packets }: GuestCounter): void {
  const name = set.replace(/6$/, '') as WatchedCounter
  if (name !== 'asked' && name !== 'served') {
    sums[name] += packets
    return
  }
  const port = key.readUInt16BE(key.length - 4) // the port is the last part of the key, padded to 32 bits
  const had = sums.amplified.get(port) ?? { askedBytes: 0, servedBytes: 0 }
  const field = name === 'asked' ? 'askedBytes' : 'servedBytes'
  sums.amplified.set(port, { ...had, [field]: had[field] + bytes })
}

/** Returns the device, MAC or address to which a counter belongs. */
function ownerIn({ set, key }: GuestCounter): string {
  if (set === 'forged') return key.toString('latin1').replace(/\0.*$/s, '')
  if (set === 'sent' || set === 'limited') return macIn(key)
  if (set === 'received') return formatIpv4(key.readUInt32LE())
  return set.endsWith('6') ? ipv6Of(key.subarray(0, 16)) : formatIpv4(key.readUInt32BE())
}

function macIn(key: Buffer): string {
  return [...key.subarray(0, 6)].map((byte) => byte.toString(16).padStart(2, '0')).join(':')
}

function ipv6Of(bytes: Buffer): string {
  return parseAddress(bytes.toString('hex').replace(/.{4}(?!$)/g, '$&:'))?.text ?? ''
}
