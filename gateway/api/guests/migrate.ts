import { Type, type Static } from 'typebox'
import type { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { notFound } from '../../../shared/errors.js'
import type { AgentFeature } from '../../../shared/agent-features.js'
import { downtimeMs } from '../../../shared/move-rules.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { changesAddresses, movesLive, type GuestMovePlan } from '../../fleet/move-contract.js'
import { checkIfMatch } from '../../http/if-match.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { placementErrors } from './placement-row.js'
import { ContainerPathSchema } from './containers.js'

const MigrateBodySchema = Type.Object(
  {
    host_id: Type.Optional(
      Type.String({
        description: 'Target host. Default: the online host with the most free resources that can take the container.',
      }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({
        description: '`true`: only returns the plan, and changes nothing. The answer has the status 200.',
      }),
    ),
    offline: Type.Optional(
      Type.Boolean({
        description:
          '`true`: the container is shut down, copied, and then started on the target. Helps if it changes its data faster than the transfer, or if a virtual machine cannot move while it runs. A stopped container needs no `offline`.',
      }),
    ),
    bandwidth_mbps: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Limit of the transfer in Mbit/s. 0: unlimited.' }),
    ),
    max_downtime_ms: Type.Optional(
      Type.Integer({
        minimum: downtimeMs.min,
        maximum: downtimeMs.max,
        description: `A running virtual machine is paused once the rest of its memory can be sent in this time, in ms. The last changes of its disk and the start on the target are added. Default: ${downtimeMs.usual}.`,
      }),
    ),
  },
  { title: 'Migrate' },
)
type MigrateBody = Static<typeof MigrateBodySchema>

const AddressChangeSchema = Type.Object({
  from: Type.String({ description: 'Address on the present host.' }),
  to: Type.String({
    description: 'Address on the target host. The same as `from` if it stays, for example in a shared pool.',
  }),
})

const MigrationSchema = Type.Object(
  {
    task_id: Type.String({ description: 'Task of the move. Empty in a dry run.' }),
    container_name: Type.String(),
    from_host_id: Type.String(),
    to_host_id: Type.String(),
    private_ipv4: AddressChangeSchema,
    public_ipv4s: Type.Array(AddressChangeSchema),
    ipv6_addresses: Type.Array(AddressChangeSchema),
    port_mappings: Type.Array(
      Type.Object({
        protocol: Type.String(),
        container_port: Type.Integer(),
        from_host_port: Type.Integer(),
        to_host_port: Type.Integer({ description: 'The same as `from_host_port` if that port is free on the target.' }),
      }),
    ),
    shuts_down: Type.Boolean({
      description: '`true`: the container runs now, and is shut down while its whole disk is copied.',
    }),
    live: Type.Boolean({
      description: '`true`: the virtual machine keeps running, and is paused only for the last part of its memory.',
    }),
    changes_addresses: Type.Boolean({
      description: '`true`: the container is reachable at other addresses or ports after the move.',
    }),
    stays_behind: Type.Array(Type.String(), {
      description:
        'Data that does not move, because the agent of one host is too old: `usage_history`, `tasks`, `alerts`. Tasks and alerts stay on the present host. The usage history is lost. Usually empty.',
    }),
  },
  { title: 'Migration' },
)
type Migration = Static<typeof MigrationSchema>
type MigrateContext = RequestContext<{ id: string }, unknown, MigrateBody | undefined> & { readonly guest: GuestView }

/** Returns the kinds of data that do not move, because one of the agents is too old. */
function listStaying({ view }: Fleet, hostIds: readonly string[]): string[] {
  const feature: AgentFeature = 'move-history'
  const canMove = hostIds.every((id) => view.findHost(id)?.description?.features.includes(feature))
  return canMove ? [] : ['usage_history', 'tasks', 'alerts']
}

export function migrateRoute(fleet: Fleet): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/migrate',
    name: 'migrateContainer',
    scope: 'host:manage',
    bound: 'refused',
    subUser: 'refused',
    audit: 'container.migrate',
    tag: 'Containers',
    summary:
      'Queues a move to another host. The disk is copied while the container runs; it is stopped only for the last changes. Until then the task can be canceled. A running virtual machine is not stopped: its memory is copied, too, and it is paused only briefly. If this is not possible, the error `offline_required` says why. With `offline`, the container is shut down before the copy. If the move fails, the container runs again on its present host',
    params: ContainerPathSchema,
    body: MigrateBodySchema,
    bodyOptional: true,
    example: { host_id: 'host-2', dry_run: true },
    data: MigrationSchema,
    conditional: true,
    statuses: [200, 202],
    errors: [
      'guest_moving',
      'move_unsupported',
      'offline_required',
      'agent_outdated',
      'invalid_state',
      'unsupported',
      'resource_exhausted',
      ...placementErrors,
      'name_conflict',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
    ],
    handle: (context) => {
      const guest = fleet.view.findGuest(context.params.id)
      if (!guest) throw notFound('container')
      context.audit({ target: guest.guest.name, containerUuid: guest.guest.uuid })
      return context.body?.dry_run ? planOnly(fleet, { ...context, guest }) : begin(fleet, { ...context, guest })
    },
  })
}

async function planOnly(fleet: Fleet, { guest, body }: MigrateContext): Promise<Answer<Migration>> {
  const offline = body?.offline ?? false
  const plan = await fleet.relocation.moves.check({ guest, toHostId: body?.host_id, offline })
  return { status: 200, message: 'nothing was changed', data: rowOf(fleet, guest, { ...plan, offline, taskId: '' }) }
}

async function begin(fleet: Fleet, context: MigrateContext): Promise<Answer<Migration>> {
  const { guest, body, operationId, caller } = context
  const offline = body?.offline ?? false
  const how = offline ? ', offline' : movesLive(guest, offline) ? ', live' : ''
  context.audit({ detail: `id ${guest.guest.id}, task ${operationId}, to ${body?.host_id ?? 'any host'}${how}` })
  await checkIfMatch(fleet, guest.guest.uuid, context)
  const bandwidthMbps = body?.bandwidth_mbps ?? 0
  const [toHostId, maxDowntimeMs] = [body?.host_id, body?.max_downtime_ms]
  const request = { operationId, guest, toHostId, bandwidthMbps, offline, maxDowntimeMs, requestedBy: caller.user }
  const plan = await fleet.relocation.moves.begin(request)
  return { status: 202, message: 'move queued', data: rowOf(fleet, guest, { ...plan, offline, taskId: operationId }) }
}

function rowOf(fleet: Fleet, view: GuestView, plan: GuestMovePlan & { offline: boolean; taskId: string }): Migration {
  const { guest, hostId } = view
  const { toHostId, network, offline, taskId } = plan
  const publicIpv4s = pairs(guest.publicIpv4s, network.publicIpv4s)
  const ipv6Addresses = pairs(guest.ipv6Addresses, network.ipv6Addresses)
  const portMappings = guest.portMappings.map((mapping, index) => mappingRow(mapping, network.portMappings[index]))
  return {
    task_id: taskId,
    container_name: guest.name,
    from_host_id: hostId,
    to_host_id: toHostId,
    private_ipv4: { from: guest.ipv4, to: network.ipv4 },
    public_ipv4s: publicIpv4s,
    ipv6_addresses: ipv6Addresses,
    port_mappings: portMappings,
    shuts_down: offline && guest.status === 'running',
    live: movesLive(view, offline),
    changes_addresses: changesAddresses(view, plan),
    stays_behind: listStaying(fleet, [hostId, toHostId]),
  }
}

function pairs(from: readonly string[], to: readonly string[]): { from: string; to: string }[] {
  return from.map((address, index) => ({ from: address, to: to[index] ?? '' }))
}

function mappingRow(from: PortMapping, to: PortMapping | undefined) {
  const { protocol, containerPort, hostPort } = from
  return { protocol, container_port: containerPort, from_host_port: hostPort, to_host_port: to?.hostPort ?? 0 }
}
