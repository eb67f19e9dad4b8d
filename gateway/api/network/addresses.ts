import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import { parseCidrOrAddress } from '../../../shared/addresses.js'
import { PoolAddress, type ScannedAddress } from '../../../proto/gen/berth/agent/v1/network.js'
import type { Fleet } from '../../fleet/contract.js'
import { refuseSharedIpv6 } from '../../fleet/shared-pools.js'
import { chooseHost, HostQuerySchema } from '../host-choice.js'
import { planAddresses } from '../guests/plan-settings.js'
import { route, type Route } from '../../http/route.js'
import { Ipv6PrefixSchema, ipv6PrefixRow, PoolAddressSchema, poolAddressRow } from './routing-row.js'
import { trimmed } from '../../http/normalize.js'
import { oneOf } from '../../http/schema.js'
import { InterfaceSchema, OptionalIpv4Schema, ipv6ListFields } from '../guests/setting-schemas.js'
import { changeSetting } from '../guests/guest-settings.js'
import { ContainerPathSchema } from '../guests/containers.js'

const optional = Type.Optional
const ScanBodySchema = Type.Object({
  cidr: Type.String({
    ...trimmed,
    maxLength: 18,
    description: 'IPv4 network whose addresses are listed: a CIDR with a prefix length of 24 to 32.',
  }),
  interface: InterfaceSchema,
  gateway: OptionalIpv4Schema,
  verify: optional(Type.Boolean({ description: '`true` (default): check by ARP which addresses are in use.' })),
  limit: optional(
    Type.Integer({
      minimum: 0,
      maximum: 256,
      description: 'Maximum number of addresses in the answer. 0: all.',
    }),
  ),
})

const statuses = ['host', 'gateway', 'assigned', 'pool', 'configured', 'in_use', 'available', 'unknown'] as const
const ScanSchema = Type.Array(
  Type.Object({
    ...PoolAddressSchema.properties,
    status: oneOf(statuses),
    usable: Type.Boolean({
      description: '`true`: the address can be added to the pool, or is already in it.',
    }),
    reason: Type.String(),
  }),
)

const ipv6Modes = ['routed', 'proxied', 'nat66', ''] as const
const Ipv6StatusSchema = Type.Object({
  host_id: Type.String(),
  available: Type.Boolean({ description: '`true`: containers on the host can get IPv6 addresses.' }),
  reachable: Type.Boolean({ description: '`true`: the host has a route to the IPv6 Internet.' }),
  reason: Type.String(),
  prefixes: Type.Array(Ipv6PrefixSchema),
  mode: oneOf(ipv6Modes),
})

const AssignBodySchema = Type.Object(ipv6ListFields)
const AssignedSchema = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  ipv6: Type.String({ description: 'First address in `ipv6_addresses`. Empty: the container has no IPv6 address.' }),
  ipv6_addresses: Type.Array(Type.String()),
})

const common = { tag: 'Routing', query: HostQuerySchema } as const
const agentErrors = ['host_offline', 'agent_timeout']

/** Routes that scan networks for free addresses, report the IPv6 status, and assign addresses to containers. */
export function addressRoutes(fleet: Fleet): Route[] {
  return [scanRoute(fleet), ipv6StatusRoute(fleet), assignRoute(fleet)]
}

function scanRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'POST',
    path: '/routing/ipv4-scan',
    name: 'scanIpv4',
    scope: 'routing:write',
    bound: 'refused',
    audit: 'routing.ipv4_scan',
    summary: 'Lists the addresses of a public network and their use',
    body: ScanBodySchema,
    example: { cidr: '203.0.113.0/24', interface: 'eth0' },
    data: ScanSchema,
    errors: agentErrors,
    handle: async (context) => {
      const { body, query } = context
      const { id } = chooseHost(fleet.view, query.host_id)
      const cidr = planScanned(body.cidr)
      context.audit({ target: id, detail: cidr })
      const { interface: name = '', gateway = '', verify = true, limit = 0 } = body
      const request = { cidr, interface: name, gateway, verify, limit }
      const { items } = await fleet.agent(id).routing.scanIpv4(request)
      return { data: items.map(scannedRow) }
    },
  })
}

/** @throws {BerthError} `invalid_field` */
function planScanned(text: string): string {
  const range = parseCidrOrAddress(text)
  if (range?.family !== 'ipv4' || range.last - range.first > 255n)
    throw invalidField('cidr', 'cidr: must be an IPv4 network of at most 256 addresses (/24)')
  return range.text
}

function scannedRow(item: ScannedAddress): Static<typeof ScanSchema>[number] {
  const status = statuses.find((known) => known === item.status) ?? 'unknown'
  const address = poolAddressRow(item.address ?? PoolAddress.create())
  return { ...address, status, usable: item.usable, reason: item.reason }
}

function ipv6StatusRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'GET',
    path: '/ipv6/status',
    name: 'getIpv6Status',
    subUser: 'refused',
    scope: 'ipv6:read',
    bound: 'same',
    summary: 'Returns whether a host can assign IPv6 addresses to containers. If it cannot, `reason` says why',
    data: Ipv6StatusSchema,
    errors: agentErrors,
    handle: async ({ query }) => {
      const { id } = chooseHost(fleet.view, query.host_id)
      const { available, reachable, reason, prefixes, mode } = await fleet.agent(id).routing.getIpv6Status({})
      const shown = ipv6Modes.find((known) => known === mode) ?? ''
      const rows = prefixes.map(ipv6PrefixRow)
      return { data: { host_id: id, available, reachable, reason, prefixes: rows, mode: shown } }
    },
  })
}

function assignRoute(fleet: Fleet): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/ipv6',
    name: 'assignIpv6',
    subUser: 'refused',
    scope: 'ipv6:assign',
    bound: 'guest',
    audit: 'container.ipv6',
    tag: 'Routing',
    summary:
      'Assigns additional IPv6 addresses to a container immediately. A request with neither a count nor addresses assigns one IPv6 address if the container has none',
    params: ContainerPathSchema,
    body: AssignBodySchema,
    example: { ipv6_count: 1, ipv6_addresses: ['2001:db8::7'] },
    bodyOptional: true,
    conditional: true,
    data: AssignedSchema,
    errors: ['address_in_use', 'resource_exhausted', 'precondition_failed', ...agentErrors],
    handle: async (context) => {
      const addresses = planAddresses('ipv6_addresses', context.body.ipv6_addresses)
      const count = context.body.ipv6_count ?? 0
      const detail = addresses.join(', ') || `count ${count || 1}`
      refuseSharedIpv6(fleet.view, context.guest.hostId, addresses)
      const change = { $case: 'assignIpv6', value: { count, addresses } } as const
      const { guest } = await changeSetting(fleet, context, { change, detail })
      const { id, name, ipv6Addresses: all } = guest
      const later = guest.atNextStart.includes('addresses') ? '; the container uses them after its next start' : ''
      return {
        message: `IPv6 addresses assigned${later}`,
        data: { id, name, ipv6: all[0] ?? '', ipv6_addresses: all },
      }
    },
  })
}
