import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { gatewayStates, type Gateways, type GatewayView } from '../../gateways/gateways.js'
import { trimmed } from '../../http/normalize.js'
import { gatewayNamePattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'

const nullable = (unit: string) =>
  Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], { description: `${unit} \`null\`: the gateway is offline.` })

const GatewaySchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    state: oneOf(
      gatewayStates,
      '`invited`: the gateway has a token, but has not joined yet. `offline`: no report for ten seconds.',
    ),
    answers: Type.Boolean({ description: '`true` for the gateway that answers this request.' }),
    version: Type.String({ description: 'Version of the gateway at its last start.' }),
    join_address: Type.String({ description: 'Address at which hosts and gateways join, as `host:port`.' }),
    joined_at: timeSchema('the gateway joined the fleet', 'it has not joined yet'),
    started_at: timeSchema('the gateway started', 'it has not started yet'),
    invited_until: timeSchema('the token of an invited gateway expires', 'the gateway has joined'),
    load_percent: nullable('Processor time of the last seconds, in percent of one processor.'),
    memory_mb: nullable('Memory of the gateway in MiB.'),
    leases: Type.Array(Type.String(), {
      description:
        'Work that this gateway does at present for the whole fleet: `webhook-lease` (delivers webhooks), `fleet-upgrade-worker` (upgrades hosts). Only while such work exists: `drain-worker` (drains hosts), `standby-worker` (requests the increments of standbys) and `ca-rotation-worker` (replaces the certificate authority).',
    }),
  },
  { title: 'Gateway' },
)

const InvitedSchema = Type.Object(
  {
    ...GatewaySchema.properties,
    join_token: Type.String({ description: 'Token for one gateway. It is shown only once.' }),
    command: Type.String({ description: 'Command to run as root on the server of the new gateway.' }),
    expires_at: timeSchema('the token expires'),
  },
  { title: 'InvitedGateway' },
)

const InviteBodySchema = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        ...trimmed,
        pattern: gatewayNamePattern,
        description: 'Unique name. Default: the host name of the server, when it joins.',
      }),
    ),
  },
  { title: 'InviteGateway' },
)
const PathSchema = Type.Object({ id: Type.String({ maxLength: 64 }) })

interface Parts {
  readonly gateways: Gateways
  readonly time: TimeFormat
}

const common = { bound: 'refused', tag: 'Gateways' } as const

export function gatewayRoutes(parts: Parts): Route[] {
  return [listRoute(parts), inviteRoute(parts), removeRoute(parts)]
}

function listRoute({ gateways, time }: Parts): Route {
  return route({
    ...common,
    method: 'GET',
    path: '/gateways',
    name: 'listGateways',
    scope: 'host:read',
    summary: 'Lists the gateways of the fleet, and the servers that were invited but have not joined yet',
    data: Type.Array(GatewaySchema),
    handle: async () => {
      const rows = await gateways.list()
      return { data: rows.map((gateway) => gatewayRow(gateway, gateways.ownId, time)) }
    },
  })
}

function inviteRoute({ gateways, time }: Parts): Route {
  return route({
    ...common,
    method: 'POST',
    path: '/gateways',
    name: 'inviteGateway',
    scope: '*',
    confirmed: true,
    audit: 'gateway.invite',
    summary:
      'Invites a server to become a further gateway. The server gets the certificate authority and all secrets of the fleet',
    body: InviteBodySchema,
    example: { name: 'gateway-2' },
    data: InvitedSchema,
    statuses: [201],
    errors: ['store_not_shared', 'name_conflict', 'too_many_gateways'],
    handle: async (context) => {
      const { name = '' } = context.body
      context.audit({ target: name })
      const { gateway, token, expiresAtMs } = await gateways.invite(context.operationId, name)
      const row = gatewayRow(gateway, gateways.ownId, time)
      const command = `echo ${token} | berth-gateway join -` // not an argument: the list of processes shows arguments
      const data = { ...row, join_token: token, command, expires_at: time.format(expiresAtMs) }
      return { status: 201, message: 'gateway invited', data }
    },
  })
}

function removeRoute({ gateways }: Parts): Route {
  return route({
    ...common,
    method: 'DELETE',
    path: '/gateways/{id}',
    name: 'removeGateway',
    scope: '*',
    confirmed: true,
    audit: 'gateway.remove',
    summary:
      'Removes a gateway or withdraws an invitation. A removed gateway stops, but its server keeps the secrets that it has received',
    params: PathSchema,
    errors: ['own_gateway'],
    handle: async (context) => {
      const { name } = await gateways.remove(context.params.id)
      context.audit({ target: name })
      return { message: 'gateway removed' }
    },
  })
}

function gatewayRow(gateway: GatewayView, ownId: string, time: TimeFormat): Static<typeof GatewaySchema> {
  const { id, name, state, version, joinAddress, status, joinedAtMs, startedAtMs, invitedUntilMs } = gateway
  return {
    id,
    name,
    state,
    answers: id === ownId,
    version,
    join_address: joinAddress,
    joined_at: time.format(joinedAtMs),
    started_at: time.format(startedAtMs),
    invited_until: time.format(invitedUntilMs),
    load_percent: status?.loadPercent ?? null,
    memory_mb: status?.memoryMb ?? null,
    leases: [...(status?.leases ?? [])],
  }
}
