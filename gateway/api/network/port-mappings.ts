import { isDeepStrictEqual } from 'node:util'
import { Type, type Static } from 'typebox'
import { changePortMapping, checkHostIp, checkPortMapping } from '../../../shared/port-mapping-rules.js'
import type { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isBound } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import type { MappingOrder } from '../../fleet/port-contract.js'
import { portsOf } from '../../fleet/placement/plan-ports.js'
import { PortMappingSchema, portMappingRow, type PortMappingRow } from '../guests/guest-row.js'
import { planHostIp, planMapping, planMappingChange } from '../guests/create/plan-mappings.js'
import { route, type Answer, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { isConfinedToInnerPorts } from '../../http/sub-user.js'
import { HostIpSchema, MappingBodySchema, MappingChangeSchema, ProtocolSchema } from '../guests/setting-schemas.js'
import { changeSetting, nothingToChange } from '../guests/guest-settings.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { planSubUserMappings, refuseChosenSide } from './plan-sub-user-mappings.js'

const optional = Type.Optional
const MappingsSchema = Type.Array(PortMappingSchema)
const IndexPathSchema = Type.Object({
  ...ContainerPathSchema.properties,
  index: Type.Integer({
    minimum: 0,
    maximum: 65_535,
    description: 'Position of the mapping in `port_mappings` of the container. The first mapping has position 0.',
  }),
})
const RandomPortQuerySchema = Type.Object({
  host_ip: optional(HostIpSchema),
  protocol: optional(ProtocolSchema),
  count: optional(Type.Integer({ minimum: 1, maximum: 1000, description: 'Number of ports. Default: 1.' })),
})
const RandomPortSchema = Type.Object({
  port: Type.Integer(),
  ports: optional(Type.Array(Type.Integer(), { description: 'Free ports. Only returned if `count` was sent.' })),
})

type ChangeBody = Static<typeof MappingChangeSchema>

const common = { scope: 'container:network', bound: 'guest', tag: 'Ports' } as const
const conditional = {
  ...common,
  conditional: true,
  data: MappingsSchema,
  errors: ['port_conflict', 'address_in_use', 'invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
} as const

export function portMappingRoutes(fleet: Fleet): Route[] {
  return [addRoute(fleet), updateRoute(fleet), removeRoute(fleet), randomPortRoute(fleet)]
}

function addRoute(fleet: Fleet): Route {
  return route({
    ...conditional,
    method: 'POST',
    path: '/containers/{id}/port-mappings',
    name: 'addPortMapping',
    subUser: 'allowed',
    audit: 'container.port_mapping_add',
    summary:
      'Maps a port or a range of ports of the host to a container. The answer contains all mappings of the container',
    params: ContainerPathSchema,
    body: MappingBodySchema,
    example: { protocol: 'tcp', container_port: 80, host_port: 0, description: 'web' },
    errors: [...conditional.errors, 'resource_exhausted', 'quota_exceeded'],
    handle: async (context) => {
      const wanted = planMapping(context.body)
      const { subUser } = context.caller
      if (subUser) refuseChosenSide(wanted)
      const portLimit = subUser?.portMappingLimit
      const { guest } = await fleet.ports.change(orderOf(context, wanted), (mapping) => {
        const change = { $case: 'addPortMapping', value: mapping } as const
        return changeSetting(fleet, context, { change, detail: describe(mapping), portLimit })
      })
      return mappingsAnswer('port mapping added', guest.portMappings)
    },
  })
}

function updateRoute(fleet: Fleet): Route {
  return route({
    ...conditional,
    method: 'PUT',
    path: '/containers/{id}/port-mappings/{index}',
    name: 'updatePortMapping',
    subUser: 'inner',
    audit: 'container.port_mapping_update',
    summary: 'Changes a mapping. Omitted fields stay unchanged. The answer contains all mappings of the container',
    params: IndexPathSchema,
    body: MappingChangeSchema,
    example: { container_port: 8080 },
    errors: [...conditional.errors, 'resource_exhausted'],
    handle: async (context) => {
      const { index } = context.params
      const wanted = planWanted(context, index)
      const { guest } = await withNewPorts(fleet, context, { index, wanted }, (sent) => {
        const change = { $case: 'updatePortMapping', value: { index, change: sent } } as const
        return changeSetting(fleet, context, { change, detail: `index ${index}` })
      })
      const changes = Object.values(wanted).some((value) => value !== undefined)
      return mappingsAnswer(changes ? 'port mapping changed' : nothingToChange, guest.portMappings)
    },
  })
}

function planWanted(
  { body, caller, guest }: RequestContext<unknown, unknown, ChangeBody> & Subjects['guest'],
  index: number,
): ReturnType<typeof planMappingChange> {
  const wanted = planMappingChange(body)
  if (!caller.subUser) return wanted
  return planSubUserMappings(wanted, guest.guest.portMappings[index], isConfinedToInnerPorts(caller))
}

type GuestContext = Pick<RequestContext<unknown, unknown, unknown>, 'operationId' | 'caller'> & Subjects['guest']
type Change = ReturnType<typeof planMappingChange>

function orderOf({ guest, operationId, caller }: GuestContext, wanted: PortMapping): MappingOrder {
  return { guest, operationId, wanted, mayName: !isBound(caller) }
}

/** Sends a change of a mapping. If it gets other host ports, these are reserved in the fleet first. */
function withNewPorts<T>(
  { ports }: Fleet,
  context: GuestContext,
  { index, wanted }: { readonly index: number; readonly wanted: Change },
  send: (change: Change) => Promise<T>,
): Promise<T> {
  const old = context.guest.guest.portMappings[index]
  if (!old) return send(wanted)
  const { length: _length, ...mapping } = checkPortMapping(changePortMapping(old, wanted))
  if (isDeepStrictEqual(portsOf(old), portsOf(mapping))) return send(wanted)
  const isAutomatic = mapping.hostPort === 0
  return ports.change(orderOf(context, mapping), ({ hostPort, hostPortEnd }) =>
    send(isAutomatic ? { ...wanted, hostPort, hostPortEnd } : wanted),
  )
}

function removeRoute(fleet: Fleet): Route {
  return route({
    ...conditional,
    method: 'DELETE',
    path: '/containers/{id}/port-mappings/{index}',
    name: 'removePortMapping',
    subUser: 'allowed',
    audit: 'container.port_mapping_remove',
    summary: 'Removes a mapping. The answer contains the remaining mappings of the container',
    params: IndexPathSchema,
    handle: async (context) => {
      const { index } = context.params
      const change = { $case: 'removePortMapping', value: index } as const
      const { guest } = await changeSetting(fleet, context, { change, detail: `index ${index}` })
      return mappingsAnswer('port mapping removed', guest.portMappings)
    },
  })
}

function randomPortRoute(fleet: Fleet): Route {
  return route({
    ...common,
    method: 'GET',
    path: '/containers/{id}/random-port',
    name: 'getRandomPort',
    subUser: 'allowed',
    summary: 'Returns one or several free ports of the container’s host. The ports are not reserved',
    params: ContainerPathSchema,
    query: RandomPortQuerySchema,
    data: RandomPortSchema,
    errors: ['address_in_use', 'resource_exhausted', 'host_offline', 'agent_timeout'],
    handle: async ({ guest: { hostId }, query, caller }) => {
      const { host_ip = '', protocol = 'tcp', count = 1 } = query
      const hostIp = checkHostIp('host_ip', planHostIp(host_ip) ?? '')
      if (caller.subUser) refuseChosenSide({ hostIp, hostPort: 0, hostPortEnd: 0 })
      const free = await fleet.agent(hostId).settings.findFreePorts({ hostIp, protocol, count })
      const ports = fleet.ports.unique.current ? await fleet.ports.suggest(hostId, protocol, count) : free.ports
      return { data: { port: ports[0] ?? 0, ...(query.count === undefined ? {} : { ports }) } }
    },
  })
}

function mappingsAnswer(message: string, mappings: readonly PortMapping[]): Answer<PortMappingRow[]> {
  return { message, data: mappings.map(portMappingRow) }
}

function describe({ protocol, hostIp, hostPort, containerPort, containerPortEnd }: PortMapping): string {
  const range = containerPortEnd > containerPort ? `-${containerPortEnd}` : ''
  return `${protocol} ${hostIp || '*'}:${hostPort || 'any'} to ${containerPort}${range}`
}
