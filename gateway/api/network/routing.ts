import { Type } from 'typebox'
import { GetRoutingResponse } from '../../../proto/gen/berth/agent/v1/network.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { chooseHost, HostQuerySchema } from '../host-choice.js'
import { route, type Route } from '../../http/route.js'
import { checkSharedPools } from './check-shared-pools.js'
import { planRouting, RoutingBodySchema, type RoutingBody } from './plan-routing.js'
import { routingRow, RoutingSchema } from './routing-row.js'
import { nothingToChange } from '../guests/guest-settings.js'
import { visibleGuestsOf } from '../guests/visible.js'

const changedFields = [
  ...(['host_id', 'nat4', 'ipv4', 'ipv6'] as const),
  ...(['nat4_port_range', 'public_ipv4_addresses', 'ipv6_prefixes'] as const),
] as const
const ChangedSchema = Type.Pick(RoutingSchema, changedFields)

const common = { tag: 'Routing', query: HostQuerySchema } as const
const agentErrors = ['host_offline', 'agent_timeout']

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
    summary: 'Returns the pools of ports and public addresses of a host, and the containers that use them',
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
    summary:
      'Replaces the public addresses, the IPv6 prefixes or the port range of a host. Omitted fields stay unchanged',
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
      const plan = planRouting(context.body)
      const isChecked = await checkSharedPools(fleet, id, plan.ipv4Pool?.items ?? [])
      const { routing } = await fleet.agent(id).routing.setRouting({ ...plan, isChecked })
      const shown = routing ?? GetRoutingResponse.create()
      const { host_id, nat4, ipv4, ipv6, ...rest } = routingRow(shown, scopeOf(fleet, context.caller, id))
      const { nat4_port_range, public_ipv4_addresses, ipv6_prefixes } = rest
      const lists = { nat4_port_range, public_ipv4_addresses, ipv6_prefixes }
      const message = nothingSent(context.body) ? nothingToChange : 'routing updated'
      return { message, data: { host_id, nat4, ipv4, ipv6, ...lists } }
    },
  })
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
