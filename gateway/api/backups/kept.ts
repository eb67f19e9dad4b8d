import { Type, type Static } from 'typebox'
import { uuidPattern } from '../../../shared/guest-rules.js'
import type { Backup } from '../../../proto/gen/berth/agent/v1/guest.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { TimeSchema } from '../../http/schema.js'
import { chooseHost } from '../host-choice.js'
import { TargetPathSchema, type BackupParts } from './targets.js'

/* Routes for backups at a target, including backups of deleted containers and lost hosts, for disaster recovery. */

const KnownContainerSchema = Type.Object(
  { uuid: Type.String(), id: Type.Integer(), name: Type.String(), exists: Type.Boolean() },
  { title: 'BackedUpContainer' },
)

const KeptBackupSchema = Type.Object(
  {
    id: Type.String(),
    container_uuid: Type.String(),
    created_at: TimeSchema,
    created_by: Type.String(),
    description: Type.String(),
  },
  { title: 'KeptBackup' },
)

const ContainerQuerySchema = Type.Object({
  container_uuid: Type.String({
    pattern: uuidPattern,
    description: 'UUID of the container to which the backups belong.',
  }),
  host_id: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'Id of the host that connects to the target. Default: the first host of the fleet that is online.',
    }),
  ),
})
type ContainerQuery = Static<typeof ContainerQuerySchema>

const KeptPathSchema = Type.Object({
  ...TargetPathSchema.properties,
  backup_id: Type.String({ pattern: uuidPattern }),
})

const QueuedDeletionSchema = Type.Object(
  { task_id: Type.String(), backup_id: Type.String(), host_id: Type.String() },
  { title: 'QueuedBackupDeletion' },
)

/** Error codes of requests that a backup target rejects or cannot complete. */
export const targetErrors = [
  'backup_target_unreachable',
  'backup_target_refused',
  'backup_target_failed',
  'backup_password_wrong',
  'backup_damaged',
]

const ofTargets = { bound: 'refused', tag: 'Backups' } as const

export function keptBackupRoutes(parts: BackupParts): Route[] {
  const { targets, fleet, time } = parts
  return [
    route({
      ...ofTargets,
      method: 'GET',
      path: '/backup-targets/{id}/containers',
      name: 'listBackedUpContainers',
      scope: 'backuptarget:read',
      summary: 'Lists all containers that were ever backed up to the target, including deleted containers',
      params: TargetPathSchema,
      data: Type.Array(KnownContainerSchema),
      handle: async ({ params }) => {
        await targets.get(params.id)
        const known = await targets.listContainers(params.id)
        const isThere = (uuid: string): boolean => fleet.view.findGuest(uuid) !== undefined
        return { data: known.map((container) => ({ ...container, exists: isThere(container.uuid) })) }
      },
    }),
    route({
      ...ofTargets,
      method: 'GET',
      path: '/backup-targets/{id}/backups',
      name: 'listKeptBackups',
      scope: 'backuptarget:read',
      summary: 'Lists all backups of a container on the target, newest first',
      params: TargetPathSchema,
      query: ContainerQuerySchema,
      data: Type.Array(KeptBackupSchema),
      errors: ['missing_field', 'host_offline', 'agent_timeout', ...targetErrors],
      handle: async ({ params, query }) => {
        const target = await targets.open(params.id)
        const { id: hostId } = chooseHost(fleet.view, query.host_id)
        const uuid = query.container_uuid
        const { backups } = await fleet.agent(hostId).backups.listBackups({ target, uuid })
        const rowOf = ({ id, createdAtMs, createdBy, description }: Backup) => ({
          id,
          container_uuid: uuid,
          created_at: time.format(createdAtMs),
          created_by: createdBy,
          description,
        })
        return { data: backups.map(rowOf).reverse() }
      },
    }),
    route({
      ...ofTargets,
      method: 'DELETE',
      path: '/backup-targets/{id}/backups/{backup_id}',
      name: 'deleteKeptBackup',
      scope: 'backuptarget:manage',
      audit: 'backup.delete',
      summary: 'Queues the deletion of a backup whose container no longer exists',
      params: KeptPathSchema,
      query: ContainerQuerySchema,
      data: QueuedDeletionSchema,
      statuses: [202],
      errors: ['missing_field', 'task_running', 'host_offline', 'agent_timeout'],
      handle: (context) => deleteKept(parts, context),
    }),
  ]
}

/** Deletes a backup through the host of its container, or through another host if the container was deleted. */
async function deleteKept(
  { targets, fleet }: BackupParts,
  context: RequestContext<Static<typeof KeptPathSchema>, ContainerQuery, unknown>,
): Promise<Answer<Static<typeof QueuedDeletionSchema>>> {
  const { params, query, operationId, caller } = context
  const uuid = query.container_uuid
  const target = await targets.open(params.id)
  const hostId = fleet.view.findGuest(uuid)?.hostId ?? chooseHost(fleet.view, query.host_id).id
  context.audit({
    target: params.backup_id,
    detail: `backup of container ${uuid}, host ${hostId}`,
    containerUuid: uuid,
  })
  const { revision } = await fleet.agent(hostId).operations.submitOperation({
    operationId,
    requestedBy: caller.user,
    order: { $case: 'backupDelete', value: { uuid, target, backupId: params.backup_id } },
  })
  await fleet.reached(hostId, revision)
  const data = { task_id: operationId, backup_id: params.backup_id, host_id: hostId }
  return { status: 202, message: 'backup-delete queued', data }
}
