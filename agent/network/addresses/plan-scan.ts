import type { AddressRange } from '../../../shared/addresses.js'
import type { InterfaceIpv4 } from '../../host/net/addresses.js'
import { formatIpv4, parseIpv4 } from '../subnet.js'
import type { PoolAddress } from './pool.js'

export type ScanStatus = 'host' | 'gateway' | 'assigned' | 'pool' | 'configured' | 'in_use' | 'available' | 'unknown'

export interface ScannedAddress {
  readonly address: PoolAddress
  readonly status: ScanStatus
  /** True if a guest can get the address. */
  readonly usable: boolean
  readonly reason: string
}

export interface ScanFacts {
  /** Interface, prefix length and gateway of all addresses of the scan. */
  readonly segment: Omit<PoolAddress, 'address'>
  /** The host's own addresses, which a guest can never get (`PoolRules.ownAddresses`), each with its interface. */
  readonly own: ReadonlyMap<string, string>
  /** Addresses on the host's interfaces that are not in `own`, each with its interface. */
  readonly configured: ReadonlyMap<string, string>
  readonly pool: ReadonlySet<string>
  readonly assigned: ReadonlySet<string>
  /** Descriptions of the network and broadcast addresses of the host's segments, by address. */
  readonly edges: ReadonlyMap<string, string>
  /** True if the address is in a network of the probed interface. Other addresses can be in use without answering. */
  readonly isOnLink: (address: string) => boolean
  /** MAC that answered for each probed address, or '' if none did. Addresses that were not probed are missing. */
  readonly answers: ReadonlyMap<string, string>
  /** Reason that the scan returns for addresses that were not probed. */
  readonly silence: string
}

export function listAddresses({ first, last }: Pick<AddressRange, 'first' | 'last'>, limit: number): string[] {
  const count = Math.min(limit, Number(last - first) + 1)
  return Array.from({ length: count }, (_, at) => formatIpv4(Number(first) + at))
}

/** Lists the addresses to probe. Omits addresses whose use is already known from the host or the journal. */
export function listToProbe(addresses: readonly string[], facts: Omit<ScanFacts, 'answers'>): string[] {
  const { own, configured, assigned, edges, segment } = facts
  const known = (address: string): boolean =>
    [own, configured, assigned, edges].some((of) => of.has(address)) || address === segment.gateway
  return addresses.filter((address) => !known(address))
}

export function planScan(addresses: readonly string[], facts: ScanFacts): ScannedAddress[] {
  return addresses.map((address) => ({
    address: { address, ...facts.segment },
    ...judge(address, facts),
  }))
}

type Verdict = Omit<ScannedAddress, 'address'>

function judge(address: string, facts: ScanFacts): Verdict {
  const { own, configured, pool, assigned, edges, segment, answers } = facts
  const verdict = (status: ScanStatus, usable: boolean, reason: string): Verdict => ({
    status,
    usable,
    reason,
  })
  const mac = answers.get(address)
  if (own.has(address)) return verdict('host', false, `belongs to the host, on ${own.get(address)}`)
  if (address === segment.gateway) return verdict('gateway', false, 'gateway of the network')
  if (assigned.has(address)) return verdict('assigned', false, 'assigned to a container')
  if (pool.has(address))
    return mac
      ? verdict('pool', false, `in the pool, but ${mac} answers for it`)
      : verdict('pool', true, 'in the pool, free')
  if (configured.has(address)) return verdict('configured', true, `already configured on ${configured.get(address)}`)
  if (edges.has(address)) return verdict('unknown', false, edges.get(address)!)
  if (mac) return verdict('in_use', false, `${mac} answers for it`)
  if (mac === '' && !facts.isOnLink(address))
    return verdict('unknown', true, `not in a network of ${segment.interface}: usable if it is routed to this host`)
  if (mac === '') return verdict('available', true, 'no answer to ARP')
  return verdict('unknown', false, facts.silence)
}

/** Maps each network and broadcast address of the host's own networks to its description. */
export function readEdges(has: readonly InterfaceIpv4[]): Map<string, string> {
  return new Map(has.flatMap((item) => listEdges(parseIpv4(item.address)!, item.prefixLength)))
}

/** Lists the network and broadcast address, which no guest can have. [] for /0, /31 and /32. */
export function listEdges(address: number, prefixLength: number): [address: string, what: string][] {
  if (prefixLength > 30 || prefixLength < 1) return []
  const size = 2 ** (32 - prefixLength)
  const first = Math.floor(address / size) * size
  const of = `${formatIpv4(first)}/${prefixLength}`
  return [
    [formatIpv4(first), `network address of ${of}`],
    [formatIpv4(first + size - 1), `broadcast address of ${of}`],
  ]
}
