import { parseCidrOrAddress } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'
import type { DefaultRoute, InterfaceIpv4 } from '../../host/net/addresses.js'
import { parseIpv4 } from '../subnet.js'
import { isUnicast } from './pool.js'
import type { HostFacts } from './host-facts.js'
import { listAddresses, listToProbe, planScan, readEdges, type ScanFacts, type ScannedAddress } from './plan-scan.js'

export interface ScanRequest {
  /** Addresses to scan: one address, or a network of /24 or smaller. */
  readonly cidr: string
  /** Interface to scan. Empty: the one with an address in the network, otherwise the one with the default route. */
  readonly interface: string
  /** Gateway of the addresses. Empty: the host's gateway, if the network contains it. */
  readonly gateway: string
  /** True if the addresses are probed on the segment. */
  readonly verify: boolean
  /** Number of addresses to return; 0: all. */
  readonly limit: number
}

/** Facts from the journal, and functions that read further facts from the host. */
export interface KnownAddresses {
  readonly pool: ReadonlySet<string>
  readonly assigned: ReadonlySet<string>
  /** Interfaces that a scan is allowed to use for probes. */
  readonly interfaces: ReadonlySet<string>
  /** The host's own addresses, which no guest can get. */
  readonly own: ReadonlySet<string>
  readonly facts: HostFacts
}

const largest = 256

/**
 * Lists each address of a segment and the facts known about it.
 * @throws {BerthError} `invalid_field`
 */
export async function scanIpv4(request: ScanRequest, known: KnownAddresses): Promise<ScannedAddress[]> {
  const range = parseCidrOrAddress(request.cidr)
  if (range?.family !== 'ipv4' || range.last - range.first >= BigInt(largest))
    throw invalidField('cidr', 'cidr: must be an IPv4 network of at most 256 addresses (/24)')
  if (!isUnicast(Number(range.first))) throw invalidField('cidr', 'cidr: must contain only unicast addresses')
  const has = known.facts.listIpv4()
  const within = ({ address }: InterfaceIpv4): boolean => isWithin(address, range)
  const device = chooseInterface(request.interface, has.find(within)?.interface, known)
  const addresses = listAddresses(range, request.limit || largest)
  const facts = readFacts(request, { has, known, device, range })
  const asked = request.verify ? known.facts.probe(device, listToProbe(addresses, facts)) : new Map()
  return planScan(addresses, { ...facts, answers: await asked })
}

interface Segment {
  readonly has: readonly InterfaceIpv4[]
  readonly known: KnownAddresses
  readonly device: string
  readonly range: { readonly first: bigint; readonly last: bigint; readonly text: string }
}

function readFacts(request: ScanRequest, { has, known, device, range }: Segment): Omit<ScanFacts, 'answers'> {
  const onDevice = has.filter((item) => item.interface === device && item.prefixLength < 32)
  const connected = onDevice.find(({ address, prefixLength }) => overlapsRange(address, prefixLength, range))
  const byAddress = (items: readonly InterfaceIpv4[]): Map<string, string> =>
    new Map(items.map((item) => [item.address, item.interface]))
  return {
    segment: {
      interface: device,
      prefixLen: connected?.prefixLength ?? Number(range.text.split('/')[1] ?? 32),
      gateway: chooseGateway(request.gateway, known.facts.readDefaultRoutes().ipv4, { device, connected }),
    },
    own: byAddress(has.filter(({ address }) => known.own.has(address))),
    configured: byAddress(has.filter(({ address }) => !known.own.has(address))),
    pool: known.pool,
    assigned: known.assigned,
    edges: readEdges(onDevice),
    isOnLink: (address) =>
      onDevice.some((item) => isWithin(address, parseCidrOrAddress(`${item.address}/${item.prefixLength}`)!)),
    silence: request.verify
      ? `${device} is down: its addresses could not be checked`
      : 'not checked, because verify is false',
  }
}

function chooseInterface(asked: string, connected: string | undefined, known: KnownAddresses): string {
  const chosen = asked || connected || known.facts.readDefaultRoutes().ipv4?.interface || ''
  if (chosen === '') throw invalidField('interface', 'interface: is required, because the host has no default route')
  if (!known.interfaces.has(chosen))
    throw invalidField('interface', 'interface: this interface does not exist on the host')
  return chosen
}

function chooseGateway(
  asked: string,
  route: DefaultRoute | undefined,
  { device, connected }: { device: string; connected: InterfaceIpv4 | undefined },
): string {
  if (asked !== '') {
    if (parseIpv4(asked) === undefined) throw invalidField('gateway', 'gateway: must be an IPv4 address')
    return asked
  }
  return connected && route?.interface === device ? route.gateway : ''
}

function isWithin(address: string, { first, last }: { first: bigint; last: bigint }): boolean {
  const value = BigInt(parseIpv4(address) ?? -1)
  return value >= first && value <= last
}

function overlapsRange(address: string, prefixLength: number, range: { first: bigint; last: bigint }): boolean {
  const network = parseCidrOrAddress(`${address}/${prefixLength}`)
  return network !== undefined && network.first <= range.last && range.first <= network.last
}
