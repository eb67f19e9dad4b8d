import { Type, type Static } from 'typebox'
import { notFound } from '../../../shared/errors.js'
import type { Fleet } from '../../fleet/contract.js'
import type { OldCopy } from '../../fleet/move-contract.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { HostPathSchema } from './hosts.js'

const ownerStates = ['online', 'offline', 'none'] as const

const CopySchema = Type.Object(
  {
    container_uuid: Type.String(),
    name: Type.String({ description: 'Name of the container when it left this host.' }),
    virtualization: Type.String(),
    disk_gb: Type.Integer(),
    owner_host_id: Type.String({
      description: 'Host to which the container belongs now. Empty: no host of the fleet has it.',
    }),
    may_be_only_copy: Type.Boolean({
      description:
        '`true`: no host that is online has a working copy of the container. The deletion needs `force=true`.',
    }),
    owner_state: oneOf(
      ownerStates,
      'State of this host. `none`: no host of the fleet has the container, for example because it was deleted.',
    ),
  },
  { title: 'OldCopy' },
)

const CopyPathSchema = Type.Object({
  ...HostPathSchema.properties,
  uuid: Type.String({ format: 'uuid', description: 'UUID of the container.' }),
})
const DeleteQuerySchema = Type.Object({
  force: Type.Optional(
    Type.Boolean({
      description: '`true`: also delete the copy if no host that is online has a working copy of the container.',
    }),
  ),
})

const path = '/hosts/{id}/copies'
const common = { bound: 'refused', tag: 'Hosts' } as const

/** Routes for old copies of containers, which a failed host keeps when it returns. */
export function oldCopyRoutes(fleet: Fleet): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path,
      name: 'listOldCopies',
      scope: 'host:read',
      summary:
        'Lists old copies of containers that belong to other hosts now. A failed host keeps them when it returns, and does not start them',
      params: HostPathSchema,
      data: Type.Array(CopySchema),
      handle: ({ params }) => {
        if (!fleet.view.findHost(params.id)) throw notFound('host')
        return { data: fleet.relocation.oldCopies.list(params.id).map(rowOf) }
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: `${path}/{uuid}`,
      name: 'deleteOldCopy',
      scope: 'host:manage',
      audit: 'host.copy_delete',
      summary: 'Queues the deletion of an old copy with its snapshots. The container itself and its backups stay',
      params: CopyPathSchema,
      query: DeleteQuerySchema,
      data: Type.Object({ task_id: Type.String() }),
      statuses: [202],
      errors: ['invalid_state', 'guest_moving', 'guest_busy', 'agent_outdated', 'host_offline', 'agent_timeout'],
      handle: async (context) => {
        const { params, query, caller, operationId } = context
        const host = fleet.view.findHost(params.id)
        if (!host) throw notFound('host')
        context.audit({
          target: host.name,
          detail: `id ${host.id}, container ${params.uuid}`,
          containerUuid: params.uuid,
        })
        const { force = false } = query
        await fleet.relocation.oldCopies.delete({
          hostId: host.id,
          uuid: params.uuid,
          operationId,
          requestedBy: caller.user,
          force,
        })
        return { status: 202, message: 'deletion of the old copy queued', data: { task_id: operationId } }
      },
    }),
  ]
}

function rowOf({ guest, owner, isOnlyCopy }: OldCopy): Static<typeof CopySchema> {
  return {
    container_uuid: guest.uuid,
    name: guest.name,
    virtualization: guest.virtualization,
    disk_gb: guest.limits?.diskGb ?? 0,
    owner_host_id: owner?.hostId ?? '',
    may_be_only_copy: isOnlyCopy,
    owner_state: owner ? (owner.online ? 'online' : 'offline') : 'none',
  }
}
