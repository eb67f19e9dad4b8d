import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { notFound } from '../../../shared/errors.js'
import { isReachableName, parseHostName } from '../../../shared/host-name.js'
import { splitHostPort } from '../../../shared/join-token.js'
import {
  hostLabelPattern,
  maxHostLabels,
  parseHostLabels,
  placementNamePattern,
} from '../../../shared/placement-rules.js'
import type { Principal } from '../../access/principal.js'
import { parsePublicAddress } from '../../fleet/public-address.js'
import type { Drains } from '../../drains/drains.js'
import type { Fleet, FleetView, HostChange, HostView, JoinToken } from '../../fleet/contract.js'
import { listQuery } from '../../http/list.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { restricts, trimmed } from '../../http/normalize.js'
import { timeSchema } from '../../http/schema.js'
import { nothingToChange } from '../guests/guest-settings.js'
import { countVisible } from '../guests/visible.js'
import { HostList, hostSortable } from './host-list.js'
import { hostRow, HostRowSchema, StateSchema, type HostRow } from './host-row.js'

const HostNameSchema = Type.String({ ...trimmed, minLength: 1, maxLength: 63 })
const describedName = { ...HostNameSchema, description: 'Name of the host, which no other host can have.' }
const AddressSchema = Type.String({
  ...trimmed,
  maxLength: 262,
  description: 'Address, as host:port, at which the gateway connects to the agent.',
})
const PublicAddressSchema = Type.String({
  ...trimmed,
  maxLength: 253,
  description:
    'DNS name or IP address at which clients reach the containers of the host. It is used in SSH commands. Empty: derived from what the agent reports.',
})
export const HostPathSchema = Type.Object({ id: Type.String({ maxLength: 64 }) })

const JoinTokenSchema = Type.Object(
  {
    join_token: Type.String({ description: 'Token that is valid once. It is returned only in this answer.' }),
    expires_at: timeSchema('the token expires'),
    command: Type.String({
      description:
        'Command to run as root on the host. It installs the agent and lets the host join the fleet. If this gateway has no packages for hosts, install the agent first.',
    }),
    join_address: Type.String({
      description: 'Address, as host:port, at which the agent of the host reaches this gateway.',
    }),
    join_local_only: Type.Boolean({
      description:
        '`true`: only an agent on the same host as the gateway can reach `join_address`, for example because it is a loopback address. For other hosts, set `join_listen` or `join_address` in `gateway.yaml`, then create a new join token.',
    }),
  },
  { title: 'JoinToken' },
)
const CreatedSchema = Type.Object({ host: HostRowSchema, ...JoinTokenSchema.properties })
const CreateBodySchema = Type.Object({
  name: describedName,
  address: Type.Optional(
    Type.String({
      ...AddressSchema,
      description:
        'Address, as host:port, at which the gateway connects to the agent. Default: the address from which the host joins, with the port of its agent.',
    }),
  ),
  public_address: Type.Optional(PublicAddressSchema),
})
const GroupSchema = Type.String({
  pattern: placementNamePattern,
  description:
    'Group of the host. Containers with this `placement.group` are only placed on hosts of the group. Empty: none.',
})
const LabelsSchema = Type.Array(Type.String({ pattern: hostLabelPattern }), {
  maxItems: maxHostLabels,
  description:
    'Words or `key=value`, which `placement.labels` of containers can require. Replaces all labels of the host.',
})
const ChangeBodySchema = Type.Object({
  name: Type.Optional(describedName),
  address: Type.Optional(AddressSchema),
  public_address: Type.Optional(Type.String({ ...PublicAddressSchema, ...restricts })),
  draining: Type.Optional(
    Type.Boolean({ description: '`true`: close the host for new containers. `false`: open it for new containers.' }),
  ),
  group: Type.Optional(GroupSchema),
  labels: Type.Optional(LabelsSchema),
})
const RemoveQuerySchema = Type.Object({
  force: Type.Optional(
    Type.Boolean({
      description: '`true`: remove the host although it has containers. The containers themselves are not changed.',
    }),
  ),
})

interface Parts {
  readonly fleet: Fleet
  readonly drains: Pick<Drains, 'refuseDisturbance'>
  readonly time: TimeFormat
}

export function hostRoutes(parts: Parts): Route[] {
  return [...readRoutes(parts), ...joinRoutes(parts), ...changeRoutes(parts)]
}

function readRoutes({ fleet: { view }, time }: Parts): Route[] {
  const list = new HostList({ view, time })
  return [
    route({
      method: 'GET',
      path: '/hosts',
      name: 'listHosts',
      subUser: 'refused',
      sortable: hostSortable,
      scope: 'host:read',
      bound: 'own',
      tag: 'Hosts',
      summary: 'Lists the hosts of the fleet',
      query: listQuery({ status: StateSchema, name: HostNameSchema }),
      data: Type.Array(HostRowSchema),
      handle: ({ caller, query }) => list.read(caller, query),
    }),
    route({
      method: 'GET',
      path: '/hosts/{id}',
      name: 'getHost',
      subUser: 'refused',
      scope: 'host:read',
      bound: 'own',
      tag: 'Hosts',
      summary: 'Returns a host',
      params: HostPathSchema,
      data: HostRowSchema,
      handle: ({ caller, params }) => ({ data: getRow({ view, time }, caller, params.id) }),
    }),
  ]
}

function joinRoutes({ fleet, time }: Parts): Route[] {
  return [
    route({
      method: 'POST',
      path: '/hosts',
      name: 'createHost',
      scope: 'host:manage',
      bound: 'refused',
      audit: 'host.create',
      tag: 'Hosts',
      summary: 'Adds a host. The answer contains the token with which its agent joins',
      body: CreateBodySchema,
      example: { name: 'node1', address: '192.0.2.20:7443', public_address: 'node1.example.com' },
      data: CreatedSchema,
      statuses: [201],
      errors: ['name_conflict', 'address_in_use', 'invalid_state'],
      handle: async (context) => {
        const { body, caller, operationId } = context
        const { public_address: publicAddress = '', ...fields } = body
        const wanted = { ...fields, publicAddress: parsePublicAddress(publicAddress) }
        const host = await fleet.hosts.createHost(wanted, operationId)
        const shown = wanted.publicAddress && `, public_address ${wanted.publicAddress}`
        context.audit({ target: host.name, detail: `id ${host.id}, address ${host.address}${shown}` })
        const token = await fleet.hosts.createJoinToken(host.id)
        const added: HostView = { ...host, joinToken: 'valid' } // the token was created after the host
        const data = { host: hostRow(added, { caller, containers: 0, time }), ...tokenRow(token, time) }
        return { status: 201, message: 'host added', data }
      },
    }),
    route({
      method: 'POST',
      path: '/hosts/{id}/join-token',
      name: 'createJoinToken',
      scope: 'host:manage',
      bound: 'refused',
      audit: 'host.join_token',
      tag: 'Hosts',
      summary: 'Creates a new join token for a host. An earlier unused token becomes invalid',
      params: HostPathSchema,
      data: JoinTokenSchema,
      statuses: [201],
      handle: async (context) => {
        const { params, caller } = context
        const { name } = getRow({ view: fleet.view, time }, caller, params.id)
        context.audit({ target: name, detail: `id ${params.id}` })
        return { status: 201, data: tokenRow(await fleet.hosts.createJoinToken(params.id), time) }
      },
    }),
  ]
}

function changeRoutes({ fleet, drains, time }: Parts): Route[] {
  return [
    route({
      method: 'PATCH',
      path: '/hosts/{id}',
      name: 'updateHost',
      scope: 'host:manage',
      bound: 'refused',
      audit: 'host.update',
      tag: 'Hosts',
      summary:
        'Changes the name, the address, the public address, the group or the labels of a host, or whether it accepts new containers (`draining`). Omitted fields stay unchanged',
      params: HostPathSchema,
      body: ChangeBodySchema,
      example: { draining: true },
      data: HostRowSchema,
      errors: ['name_conflict', 'address_in_use', 'drain_running'],
      handle: (context) => changeHost({ fleet, drains, time }, context),
    }),
    route({
      method: 'DELETE',
      path: '/hosts/{id}',
      name: 'deleteHost',
      scope: 'host:manage',
      bound: 'refused',
      confirmed: true,
      audit: 'host.delete',
      tag: 'Hosts',
      summary: 'Removes a host from the fleet. Its certificate is revoked',
      params: HostPathSchema,
      query: RemoveQuerySchema,
      errors: ['invalid_state'],
      handle: async (context) => {
        const { params, query, caller } = context
        const { name, containers } = getRow({ view: fleet.view, time }, caller, params.id)
        context.audit({ target: name, detail: `id ${params.id}, ${containers} containers` })
        await fleet.hosts.removeHost(params.id, { force: query.force ?? false })
        return { message: 'host removed' }
      },
    }),
  ]
}

async function changeHost(
  { fleet, drains, time }: Parts,
  context: RequestContext<{ id: string }, unknown, Static<typeof ChangeBodySchema>>,
): Promise<Answer<HostRow>> {
  const { params, body, caller } = context
  const { name } = getRow({ view: fleet.view, time }, caller, params.id)
  const change = pick(body)
  const detail = Object.entries(change).map(describeField)
  context.audit({ target: name, detail: [`id ${params.id}`, ...detail].join(', ') })
  if (change.draining !== undefined) drains.refuseDisturbance(params.id)
  await fleet.hosts.updateHost(params.id, change)
  const message = detail.length > 0 ? 'host changed' : nothingToChange
  return { message, data: getRow({ view: fleet.view, time }, caller, params.id) }
}

function describeField([field, value]: [string, string | boolean | readonly string[]]): string {
  if (field === 'publicAddress') return `public_address ${String(value) || 'derived automatically'}`
  return `${field} ${(Array.isArray(value) ? value.join(' ') : String(value)) || 'none'}`
}

/** Selects the documented fields of a body. */
function pick(body: Static<typeof ChangeBodySchema>): HostChange {
  const { name, address, draining, group, labels, public_address: publicAddress } = body
  return {
    ...(group === undefined ? {} : { group }),
    ...(labels === undefined ? {} : { labels: parseHostLabels(labels) }),
    ...(name === undefined ? {} : { name }),
    ...(address === undefined ? {} : { address }),
    ...(draining === undefined ? {} : { draining }),
    ...(publicAddress === undefined ? {} : { publicAddress: parsePublicAddress(publicAddress) }),
  }
}

/** @throws {BerthError} `not_found` */
export function getRow(
  { view, time }: { view: FleetView; time: TimeFormat },
  caller: Principal,
  hostId: string,
): HostRow {
  const host = view.findHost(hostId)
  if (!host) throw notFound('host')
  return hostRow(host, { caller, containers: countVisible(view, caller, hostId).total, time })
}

function tokenRow({ token, expiresAtMs, command, address }: JoinToken, time: TimeFormat) {
  const joinHost = parseHostName(splitHostPort(address).host) ?? ''
  return {
    join_token: token,
    expires_at: time.format(expiresAtMs),
    command,
    join_address: address,
    join_local_only: !isReachableName(joinHost),
  }
}
