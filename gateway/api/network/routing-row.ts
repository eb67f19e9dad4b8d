import { Type, type Static } from 'typebox'
import { parseCidrOrAddress } from '../../../shared/addresses.js'
import type {
  AddressAssignment,
  GetRoutingResponse,
  Ipv6Prefix,
  PoolAddress,
  PortRange,
} from '../../../proto/gen/berth/agent/v1/network.js'
import type { GuestView } from '../../fleet/contract.js'
import { statusOf } from '../../fleet/guest-status.js'
import { GuestStatusSchema, portMappingRow, PortMappingSchema } from '../guests/guest-row.js'

const amount = (description: string) => Type.String({ description })

export const UsageSchema = Type.Object(
  {
    used: Type.Integer({ minimum: 0 }),
    remaining: amount('Number of addresses or ports that are still free. For IPv6 it may be `unlimited`.'),
    total: amount('Number of addresses or ports in the pool. For IPv6 it may be `unlimited`.'),
  },
  { title: 'PoolUsage' },
)

export const PoolAddressSchema = Type.Object(
  {
    address: Type.String(),
    interface: Type.String(),
    prefix_len: Type.Integer(),
    gateway: Type.String(),
  },
  { title: 'PoolAddress' },
)

export const Ipv6PrefixSchema = Type.Object(
  {
    interface: Type.String(),
    address: Type.String({ description: 'Address of the host in the prefix. Empty: the host has no address in it.' }),
    prefix: Type.String(),
    prefix_len: Type.Integer(),
    gateway: Type.String(),
  },
  { title: 'Ipv6Prefix' },
)

export const PortRangeSchema = Type.Object({ start: Type.Integer(), end: Type.Integer() })

const holder = { container_id: Type.Integer(), container_name: Type.String() }

export const RoutingSchema = Type.Object(
  {
    host_id: Type.String(),
    nat4: Type.Object(UsageSchema.properties, {
      description:
        'Usage of the host ports in `nat4_port_range`. A port that is mapped for both tcp and udp, or at two addresses, counts once.',
    }),
    ipv4: UsageSchema,
    ipv6: UsageSchema,
    nat4_port_range: PortRangeSchema,
    public_ipv4_addresses: Type.Array(PoolAddressSchema),
    ipv6_prefixes: Type.Array(Ipv6PrefixSchema),
    ipv4_assignments: Type.Array(Type.Object({ ...holder, ...PoolAddressSchema.properties })),
    nat4_mappings: Type.Array(
      Type.Object({
        ...holder,
        status: GuestStatusSchema,
        ip: Type.String(),
        ...PortMappingSchema.properties,
      }),
    ),
    ipv6_assignments: Type.Array(
      Type.Object({
        ...holder,
        address: Type.String(),
        prefix_len: Type.Integer(),
        interface: Type.String(),
        gateway: Type.String(),
      }),
    ),
  },
  { title: 'Routing' },
)
export type RoutingRow = Static<typeof RoutingSchema>
type Usage = Static<typeof UsageSchema>

/** The part of a host's routing that a caller may see: the entries of `guests` (by uuid), or everything if `all`. */
export interface RoutingScope {
  readonly hostId: string
  readonly guests: ReadonlyMap<string, GuestView>
  readonly all: boolean
}

/** Converts a host's routing. A caller restricted to some containers sees only their addresses, but all prefixes. */
export function routingRow(routing: GetRoutingResponse, scope: RoutingScope): RoutingRow {
  const ipv4Assignments = heldBy(routing.ipv4Assignments, scope)
  const ipv6Assignments = heldBy(routing.ipv6Assignments, scope)
  const mappings = [...scope.guests.values()].flatMap(mappingRows)
  const ports = routing.nat4Ports ?? { start: 0, end: 0 }
  return {
    host_id: scope.hostId,
    nat4: scope.all ? usage(routing.nat4PortsUsed, portsOf(ports)) : ownUsage(portsHeld(mappings)),
    ipv4: scope.all ? ipv4Usage(routing) : ownUsage(ipv4Assignments.length),
    ipv6: scope.all ? ipv6Usage(routing) : ownUsage(ipv6Assignments.length),
    nat4_port_range: { start: ports.start, end: ports.end },
    public_ipv4_addresses: scope.all
      ? routing.ipv4Pool.map(poolAddressRow)
      : ipv4Assignments.map(([assignment]) => poolAddressRow(assignment)),
    ipv6_prefixes: routing.ipv6Prefixes.map(ipv6PrefixRow),
    ipv4_assignments: ipv4Assignments.map(([one, { guest }]) => ({
      ...holderRow(guest),
      ...poolAddressRow(one),
    })),
    nat4_mappings: mappings,
    ipv6_assignments: ipv6Assignments.map(([one, { guest }]) => ({
      ...holderRow(guest),
      address: one.address,
      prefix_len: one.prefixLen,
      interface: one.interface,
      gateway: one.gateway,
    })),
  }
}

export function poolAddressRow({ address, interface: name, prefixLen, gateway }: PoolAddress) {
  return { address, interface: name, prefix_len: prefixLen, gateway }
}

export function ipv6PrefixRow(one: Ipv6Prefix): Static<typeof Ipv6PrefixSchema> {
  const { address, prefix, gateway } = one
  return { interface: one.interface, address, prefix, prefix_len: one.prefixLen, gateway }
}

/** Returns the assignments of containers that the caller may see, each with its container. */
function heldBy(assignments: readonly AddressAssignment[], { guests }: RoutingScope): [AddressAssignment, GuestView][] {
  return assignments.flatMap((assignment) => {
    const holder = guests.get(assignment.guestUuid)
    return holder ? [[assignment, holder] as [AddressAssignment, GuestView]] : []
  })
}

function mappingRows(view: GuestView): RoutingRow['nat4_mappings'] {
  const status = statusOf(view)
  const { guest } = view
  return guest.portMappings.map((mapping) => ({
    ...holderRow(guest),
    status,
    ip: guest.ipv4,
    ...portMappingRow(mapping),
  }))
}

function holderRow({ id, name }: { id: number; name: string }) {
  return { container_id: id, container_name: name }
}

function usage(used: number, total: number): Usage {
  return { used, remaining: String(Math.max(0, total - used)), total: String(total) }
}

/** Usage as shown to a caller restricted to containers. Its `total` is the number that the caller's containers use. */
function ownUsage(held: number): Usage {
  return usage(held, held)
}

function portsOf({ start, end }: PortRange): number {
  return start === 0 ? 0 : end - start + 1
}

/** Counts ports in use. A port that several mappings share counts once. */
function portsHeld(mappings: RoutingRow['nat4_mappings']): number {
  const spans = mappings.map(({ host_port: first, host_port_end: last = first }) => ({ first, last }))
  let [held, reached] = [0, 0]
  for (const { first, last } of spans.toSorted((a, b) => a.first - b.first)) {
    held += Math.max(0, last - Math.max(first, reached + 1) + 1)
    reached = Math.max(reached, last)
  }
  return held
}

function ipv4Usage({ ipv4Pool, ipv4Assignments }: GetRoutingResponse): Usage {
  return usage(ipv4Assignments.length, ipv4Pool.length)
}

/** Prefixes with at least this number of addresses count as unlimited. */
const countable = 2n ** 32n

function ipv6Usage({ ipv6Prefixes, ipv6Assignments }: GetRoutingResponse): Usage {
  const used = ipv6Assignments.length
  const total = ipv6Prefixes.reduce((sum, prefix) => sum + assignableOf(prefix), 0n)
  if (total >= countable) return { used, remaining: 'unlimited', total: 'unlimited' }
  return usage(used, Number(total))
}

/** Counts all addresses except those of host and router, and the subnet-router anycast address (RFC 4291 2.6.1). */
function assignableOf({ prefix, prefixLen, address, gateway }: Ipv6Prefix): bigint {
  const range = parseCidrOrAddress(`${prefix}/${prefixLen}`)
  if (!range) return 0n
  const taken = new Set([range.first])
  for (const text of [address, gateway]) {
    const own = parseCidrOrAddress(text)
    if (own && own.first >= range.first && own.last <= range.last) taken.add(own.first)
  }
  return range.last - range.first + 1n - BigInt(taken.size)
}
