import type { TrackedFlow } from '../../../host/net/conntrack.js'
import type { GuestNetwork, NatMapping } from '../../contract.js'
import { addressOf } from './element-index.js'
import { parsePorts } from './element-ports.js'
import { isElsewhere, joinNeighbours, leadsElsewhere, type MappedFlows } from './mapped-flows.js'
import { keyOf, setOf, type TableChange } from './plan-change.js'
import type { ElementId } from './plan-guest.js'
import { parseIpv4, type Subnet } from '../../subnet.js'

/** Entries of the connection tracking table that a change of nft elements has made stale. They must be purged. */
export interface StaleFlows {
  /** Addresses that no longer belong to the guest that had them. */
  readonly addresses: readonly string[]
  /** Public addresses that a guest has gained or lost. */
  readonly publicAddresses: readonly string[]
  /** Removed or changed mappings with their former targets. */
  readonly mappings: readonly MappedFlows[]
  /** New UDP mappings. If a client's flow is older than its mapping, the flow's datagrams would bypass the mapping. */
  readonly newDatagrams: readonly MappedFlows[]
}

/** Finds the flows that a change makes stale. @param valueOf returns the value of an element before the change */
export function findStaleFlows(
  { remove, add }: TableChange,
  valueOf: (id: ElementId) => string | undefined,
): StaleFlows {
  const added = [...add].filter(([id, value]) => valueOf(id) !== value)
  const lost = remove.filter(isAddress).map(addressIn)
  // Link-local addresses are left out, because conntrack has no flows of them.
  const addresses = new Set(lost.filter((address) => !address.startsWith('fe80:') && address !== '::'))
  return {
    addresses: [...addresses],
    publicAddresses: [...new Set([...remove, ...added.map(([id]) => id)].filter(isPublic).map(keyOf))],
    mappings: joinNeighbours(
      remove
        .filter(isMapping)
        .map((id) => flowsOf(id, valueOf(id) ?? ''))
        .filter(({ target }) => target !== '' && !addresses.has(target)),
    ),
    newDatagrams: joinNeighbours(
      added
        .filter(([id]) => isMapping(id))
        .map(([id, value]) => flowsOf(id, value))
        .filter(({ protocol }) => protocol === 'udp'),
    ),
  }
}

/**
 * Finds flows to private addresses that no guest has, and flows of mappings that no longer exist. An earlier agent can
 * have ended after it removed nft elements, but before it purged their flows.
 */
export function findAbandoned(
  flows: readonly TrackedFlow[],
  guests: readonly GuestNetwork[],
  { first, last }: Subnet,
): StaleFlows {
  const owners = new Map(
    guests.flatMap((guest) => [guest.ipv4, ...guest.ipv6Addresses].map((address) => [address, guest] as const)),
  )
  const isPrivate = (address: string): boolean => {
    const value = parseIpv4(address) ?? 0
    return value >= first && value <= last
  }
  const inFlows = flows.flatMap(({ opener, asked, answerer, answered }) => [opener, asked, answerer, answered])
  return {
    addresses: [...new Set(inFlows)].filter((address) => isPrivate(address) && !owners.has(address)),
    publicAddresses: [],
    mappings: joinNeighbours(flows.flatMap((flow) => unmapped(flow, owners.get(flow.answerer)))),
    newDatagrams: [],
  }
}

function unmapped({ protocol, asked, answerer, askedPort }: TrackedFlow, owner?: GuestNetwork): MappedFlows[] {
  if (!owner || !protocol || asked === answerer || owner.publicIpv4s.includes(asked)) return []
  const leads = (mapping: NatMapping): boolean =>
    mapping.protocol === protocol &&
    (mapping.hostIp === '' || mapping.hostIp === asked) &&
    mapping.hostPort <= askedPort &&
    askedPort <= mapping.hostPortEnd
  if (owner.portMappings.some(leads)) return []
  return [{ protocol, hostIp: asked, hostPort: askedPort, hostPortEnd: askedPort, target: answerer }]
}

/** Joins the stale flows of several changes, without duplicates. */
export function mergeStaleFlows(all: readonly StaleFlows[]): StaleFlows {
  return {
    addresses: [...new Set(all.flatMap(({ addresses }) => addresses))],
    publicAddresses: [...new Set(all.flatMap(({ publicAddresses }) => publicAddresses))],
    mappings: joinNeighbours(all.flatMap(({ mappings }) => mappings)),
    newDatagrams: joinNeighbours(all.flatMap(({ newDatagrams }) => newDatagrams)),
  }
}

const isAddress = (id: ElementId): boolean => setOf(id) === 'guests' || setOf(id) === 'guests6'
const addressIn = (id: ElementId): string => keyOf(id).split(' . ')[2] ?? ''
const isPublic = (id: ElementId): boolean => setOf(id) === 'public_in'
const isMapping = (id: ElementId): boolean => /^(?:ports|host_ports|port_ranges)6? /.test(id)

/**
 * True if stale flows in conntrack could lead clients of a new mapping to another guest. A stale flow to an address
 * that lost its guest can have any host port, because the former mappings of this address are not known.
 */
export function leadAstray(
  { addresses, mappings }: Pick<StaleFlows, 'addresses' | 'mappings'>,
  added: readonly MappedFlows[],
): boolean {
  return added.some(
    (mapping) =>
      addresses.some((address) => isElsewhere(address, mapping.target)) ||
      mappings.some((flows) => leadsElsewhere(flows, mapping)),
  )
}

function flowsOf(id: ElementId, value: string): MappedFlows {
  const { host, protocol, first, last } = parsePorts(id)
  return {
    protocol: protocol === '17' ? 'udp' : 'tcp',
    hostIp: host.includes('/') ? '' : host,
    hostPort: first,
    hostPortEnd: last,
    target: addressOf(value),
  }
}
