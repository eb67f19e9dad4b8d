import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import { parseAddress, parseCidrOrAddress } from '../../../shared/addresses.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { checkPortRange } from '../../../shared/port-mapping-rules.js'
import { GetRoutingResponse, type SetRoutingRequest } from '../../../proto/gen/berth/agent/v1/network.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { chooseHost, HostQuerySchema } from '../hosts/host-choice.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { routingRow, RoutingSchema } from './routing-row.js'
import { InterfaceSchema, OptionalIpv4Schema, OptionalIpv6Schema } from '../guests/setting-schemas.js'
import { nothingToChange } from '../guests/guest-settings.js'
import { visibleGuestsOf } from '../guests/visible.js'

const optional = Type.Optional
const prefixLength = (maximum: number) => Type.Integer({ minimum: 0, maximum })

/** More would not fit into one answer of an agent. */
const maxPool = 4096

const PoolSchema = Type.Array(
  Type.Object({
    address: Type.String({ format: 'ipv4' }),
    interface: InterfaceSchema,
    prefix_len: optional(prefixLength(32)),
    gateway: OptionalIpv4Schema,
  }),
  { maxItems: maxPool },
)

const PrefixesSchema = Type.Array(
  Type.Object({
    interface: InterfaceSchema,
    address: OptionalIpv6Schema,
    prefix: Type.String({
      ...trimmed,
      maxLength: 49,
      description: 'Network address; `/length` may stand behind it.',
    }),
    prefix_len: optional(prefixLength(128)),
    gateway: OptionalIpv6Schema,
  }),
  { maxItems: 256 },
)

const { min: minimum, max: maximum } = networkLimits.natPort
const port = Type.Integer({ minimum, maximum })
const RoutingBodySchema = Type.Object(
  {
    items: optional(PoolSchema),
    public_ipv4_addresses: optional(PoolSchema),
    ipv6_prefixes: optional(PrefixesSchema),
    nat4_port_range: optional(Type.Object({ start: port, end: port })),
  },
  { title: 'NewRouting' },
)
type RoutingBody = Static<typeof RoutingBodySchema>

const changedFields = [
  ...(['host_id', 'nat4', 'ipv4', 'ipv6'] as const),
  ...(['nat4_port_range', 'public_ipv4_addresses', 'ipv6_prefixes'] as const),
] as const
const ChangedSchema = Type.Pick(RoutingSchema, changedFields)

const common = { tag: 'Routing', query: HostQuerySchema } as const
const agentErrors = ['host_offline', 'agent_timeout']

/** Routes for the pools of a host and their use. */
export function routingRoutes(fleet: Fleet): Route[] {
  return [readRoute(fleet), changeRoute(fleet)]
}

function readRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'GET',
    path: '/routing',
    name: 'getRouting',
    subUser: 'refused',
    scope: 'routing:read',
    bound: 'own',
    summary: 'Ports and public addresses of a host: pools, what is used, who has what',
    data: RoutingSchema,
    errors: agentErrors,
    handle: async ({ caller, query }) => {
      const { id } = chooseHost(fleet.view, query.host_id)
      const routing = await fleet.agent(id).routing.getRouting({})
      return { data: routingRow(routing, scopeOf(fleet, caller, id)) }
    },
  })
}

function scopeOf({ view }: Fleet, caller: Principal, hostId: string) {
  const own = visibleGuestsOf(view, caller, hostId)
  return { hostId, guests: new Map(own.map((found) => [found.guest.uuid, found])), all: !isBound(caller) }
}

function changeRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'PUT',
    path: '/routing',
    name: 'updateRouting',
    scope: 'routing:write',
    bound: 'refused',
    audit: 'routing.update',
    summary: 'Replaces the lists sent; the others stay',
    body: RoutingBodySchema,
    example: {
      items: [{ address: '203.0.113.7', interface: 'eth0', prefix_len: 24, gateway: '203.0.113.1' }],
      ipv6_prefixes: [{ interface: 'eth0', prefix: '2001:db8::/64' }],
      nat4_port_range: { start: 20000, end: 29999 },
    },
    data: ChangedSchema,
    errors: ['address_in_use', 'port_conflict', ...agentErrors],
    handle: async (context) => {
      const { id } = chooseHost(fleet.view, context.query.host_id)
      context.audit({ target: id, detail: describeRouting(context.body) })
      const { routing } = await fleet.agent(id).routing.setRouting(planRouting(context.body))
      const shown = routing ?? GetRoutingResponse.create()
      const { host_id, nat4, ipv4, ipv6, ...rest } = routingRow(shown, scopeOf(fleet, context.caller, id))
      const { nat4_port_range, public_ipv4_addresses, ipv6_prefixes } = rest
      const lists = { nat4_port_range, public_ipv4_addresses, ipv6_prefixes }
      const message = nothingSent(context.body) ? nothingToChange : 'routing updated'
      return { message, data: { host_id, nat4, ipv4, ipv6, ...lists } }
    },
  })
}

/** Undefined lists stay as they are. @throws {BerthError} `invalid_field` */
function planRouting(body: RoutingBody): SetRoutingRequest {
  const pool = body.items ?? body.public_ipv4_addresses
  const range = body.nat4_port_range
  if (range) checkPortRange('nat4_port_range', range)
  return {
    ipv4Pool: pool && { items: pool.map(planPoolAddress) },
    ipv6Prefixes: body.ipv6_prefixes && { items: body.ipv6_prefixes.map(planPrefix) },
    nat4Ports: range && { start: range.start, end: range.end },
  }
}

function planPoolAddress(item: Static<typeof PoolSchema>[number]) {
  const { address, interface: name = '', prefix_len: prefixLen = 32, gateway = '' } = item
  return { address, interface: name, prefixLen, gateway }
}

function planPrefix(item: Static<typeof PrefixesSchema>[number], index: number) {
  const { interface: name = '', address = '', gateway = '' } = item
  const network = parseNetwork(item.prefix, item.prefix_len)
  const field = `ipv6_prefixes.${index}.prefix`
  if (!network)
    throw invalidField(field, `${field}: must be an IPv6 network, with its length behind it or in prefix_len`)
  return { interface: name, address, gateway, ...network }
}

/** @returns undefined unless there is exactly one length, and no bits of the address beyond it */
function parseNetwork(text: string, length?: number): { prefix: string; prefixLen: number } | undefined {
  const [, address = '', behind] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? []
  const prefixLen = length ?? (behind === undefined ? undefined : Number(behind))
  if (prefixLen === undefined || Number(behind ?? prefixLen) !== prefixLen) return undefined
  const [network, first] = [parseCidrOrAddress(`${address}/${prefixLen}`), parseAddress(address)]
  if (network?.family !== 'ipv6' || network.first !== first?.first) return undefined
  return { prefix: first.text, prefixLen }
}

function nothingSent(body: RoutingBody): boolean {
  return !(body.items ?? body.public_ipv4_addresses ?? body.ipv6_prefixes ?? body.nat4_port_range)
}

function describeRouting(body: RoutingBody): string {
  const pool = body.items ?? body.public_ipv4_addresses
  const range = body.nat4_port_range
  const parts = [
    ...(pool ? [`${pool.length} IPv4 addresses`] : []),
    ...(body.ipv6_prefixes ? [`${body.ipv6_prefixes.length} IPv6 prefixes`] : []),
    ...(range ? [`ports ${range.start}-${range.end}`] : []),
  ]
  return parts.join(', ') || 'nothing'
}
