import { Type, type Static } from 'typebox'
import { BerthError, notFound } from '../../../shared/errors.js'
import { descriptionPattern } from '../../../shared/guest-rules.js'
import { guestsOf, isBound, type Principal } from '../../access/principal.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Answer, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { textFilter, virtualizationName } from '../guests/guest-row.js'
import { refuseSuspendedSource } from '../guests/suspension.js'
import { queueOrder } from '../guests/queue-order.js'
import { QueuedSchema } from '../tasks/task-row.js'
import { backupRow, BackupSchema, listBackups } from './backup-row.js'
import { restoreAsNewRoute } from './restore-as-new.js'
import { backupScheduleRoute, backupScheduleRow, BackupScheduleSchema } from './schedule.js'
import { findBackup, openTarget, type BackupLocation } from './backup-location.js'
import { TargetIdSchema, targetIdFor } from '../target-choice.js'
import type { BackupParts } from './targets.js'

const ContainerBackupsSchema = Type.Object(
  { schedule: BackupScheduleSchema, backups: Type.Array(BackupSchema) },
  { title: 'ContainerBackups' },
)

const CreateBackupSchema = Type.Object(
  {
    target_id: Type.Optional(TargetIdSchema),
    description: Type.Optional(
      Type.String({
        pattern: descriptionPattern,
        description: 'Description of the backup: at most 200 printable characters on one line.',
      }),
    ),
  },
  { title: 'NewBackup' },
)

const RestoreBodySchema = Type.Object(
  {
    target_id: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'Id of the target that contains the backup. Only allowed together with `container_uuid`. Both can be omitted only if `GET /backups` contains the backup.',
      }),
    ),
    container_uuid: Type.Optional(
      Type.String({
        ...trimmed,
        format: 'uuid',
        description:
          'UUID of the container whose backup is restored. Send it together with `target_id` if that container no longer exists, or if `GET /backups` does not list the backup. Not available for callers that are bound to containers.',
      }),
    ),
  },
  { title: 'BackupRestore' },
)
type RestoreBody = Static<typeof RestoreBodySchema>

const QueuedBackupSchema = Type.Object(
  { ...QueuedSchema.properties, backup_id: Type.String() },
  { title: 'QueuedBackup' },
)
type QueuedBackup = Static<typeof QueuedBackupSchema>

const BackupPathSchema = Type.Object({
  ...ContainerPathSchema.properties,
  backup_id: Type.String({ maxLength: 64 }),
})

type Context<Params, Body> = RequestContext<Params, unknown, Body> & Subjects['guest']
type BackupParams = Static<typeof BackupPathSchema>

const listedBy = ['id', 'container_id', 'container_name', 'created_at', 'size_bytes'] as const

const ofContainer = { bound: 'guest', tag: 'Backups' } as const
const writeErrors = ['invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout']

export function backupRoutes(parts: BackupParts): Route[] {
  return [
    ...readRoutes(parts),
    createRoute(parts),
    restoreRoute(parts),
    restoreAsNewRoute(parts),
    deleteRoute(parts),
    backupScheduleRoute(parts),
  ]
}

function readRoutes({ fleet, targets, time }: BackupParts): Route[] {
  const shownBy = async () => ({
    targetNames: new Map((await targets.list()).map(({ id, shown }) => [id, shown.name])),
    time,
  })
  const rowsOf = (guests: Iterable<GuestView>, shown: Awaited<ReturnType<typeof shownBy>>) =>
    listBackups(guests).map((found) => backupRow(found, shown))
  return [
    route({
      method: 'GET',
      path: '/backups',
      name: 'listBackups',
      sortable: listedBy,
      query: listQuery({ container_name: textFilter, target_id: textFilter }),
      subUser: 'refused',
      scope: 'backup:read',
      bound: 'own',
      tag: 'Backups',
      summary: 'Lists the backups of all containers, newest first',
      data: Type.Array(BackupSchema),
      handle: async ({ caller, query }) =>
        listAnswer(rowsOf(guestsOf(caller, fleet.view), await shownBy()), query, {
          sortable: listedBy,
          filters: ['container_name', 'target_id'],
        }),
    }),
    route({
      ...ofContainer,
      method: 'GET',
      path: '/containers/{id}/backups',
      name: 'getContainerBackups',
      subUser: 'refused',
      scope: 'backup:read',
      summary: 'Returns the backups of a container, newest first, and its backup schedule',
      params: ContainerPathSchema,
      data: ContainerBackupsSchema,
      handle: async ({ guest }) => {
        const shown = await shownBy()
        const schedule = backupScheduleRow(guest.guest.backupSchedule, shown)
        return { data: { schedule, backups: rowsOf([guest], shown) } }
      },
    }),
  ]
}

function createRoute(parts: BackupParts): Route {
  return route({
    ...ofContainer,
    method: 'POST',
    path: '/containers/{id}/backups',
    name: 'createBackup',
    subUser: 'refused',
    scope: 'backup:create',
    audit: 'backup.create',
    summary:
      'Queues a backup of the current disk of a container. `GET /backups` lists the backup after it was verified',
    params: ContainerPathSchema,
    body: CreateBackupSchema,
    bodyOptional: true,
    example: { description: 'before the move' },
    data: QueuedBackupSchema,
    statuses: [202],
    conditional: true,
    errors: [...writeErrors, 'quota_exceeded', 'backup_target_missing'],
    handle: async (context) => {
      const { uuid, name, id } = context.guest.guest
      const target = await parts.targets.open(await targetIdFor(parts, context.body?.target_id))
      await parts.targets.note(target.id, { uuid, name, id })
      const description = context.body?.description ?? ''
      const order = { $case: 'backupCreate', value: { uuid, target, description } } as const
      const { data } = await queueOrder(parts.fleet, context, { action: 'backup-create', order })
      return queued(data, context.operationId)
    },
  })
}

function restoreRoute(parts: BackupParts): Route {
  return route({
    ...ofContainer,
    method: 'POST',
    path: '/containers/{id}/backups/{backup_id}/restore',
    name: 'restoreBackup',
    subUser: 'refused',
    scope: 'backup:restore',
    audit: 'backup.restore',
    summary:
      'Restores a backup onto this container. The backup may come from another container or host. A running container is stopped after the backup was fetched, and started again. Afterwards the disk has the passwords and keys that were on it when the backup was created. After a restore of another container’s backup, this container keeps its own login and host name, and gets a new `machine-id` and new SSH host keys',
    params: BackupPathSchema,
    body: RestoreBodySchema,
    bodyOptional: true,
    example: {
      target_id: '0b6f6f0e-1f0a-4f0e-9f0a-6d7f1f1d2c3b',
      container_uuid: '6f0f3f6a-0d2e-4f0e-9f0a-6d7f1f1d2c3b',
    },
    data: QueuedBackupSchema,
    statuses: [202],
    conditional: true,
    errors: [...writeErrors, 'backup_target_missing', 'unsupported'],
    handle: async (context) => {
      const { uuid } = context.guest.guest
      const { backup_id: backupId } = context.params
      const { targetId, sourceUuid } = locate(parts.fleet.view, context)
      refuseSuspendedSource(parts.fleet.view, context.caller, sourceUuid)
      refuseOtherKind(parts.fleet.view, context.guest, sourceUuid)
      const target = await openTarget(parts, targetId)
      const value = { uuid, target, backupId, sourceUuid }
      const order = { $case: 'backupRestore', value } as const
      const { data } = await queueOrder(parts.fleet, context, { action: 'backup-restore', order })
      return queued(data, backupId)
    },
  })
}

/** @throws {BerthError} `unsupported` for a container's backup on a virtual machine, or the reverse */
function refuseOtherKind(view: FleetView, { guest }: GuestView, sourceUuid: string): void {
  const source = view.findGuest(sourceUuid)?.guest
  if (source === undefined) return
  if (virtualizationName(source.virtualization) === virtualizationName(guest.virtualization)) return
  const message =
    'a virtual machine can only be restored from backups of virtual machines, and a container only from those of containers'
  throw new BerthError('invalid', 'unsupported', message)
}

function deleteRoute(parts: BackupParts): Route {
  return route({
    ...ofContainer,
    method: 'DELETE',
    path: '/containers/{id}/backups/{backup_id}',
    name: 'deleteBackup',
    subUser: 'refused',
    scope: 'backup:delete',
    audit: 'backup.delete',
    summary: 'Queues the deletion of a backup and of all data that only this backup uses',
    params: BackupPathSchema,
    data: QueuedBackupSchema,
    statuses: [202],
    conditional: true,
    errors: [...writeErrors, 'task_running', 'backup_target_missing'],
    handle: async (context) => {
      const { uuid, backups } = context.guest.guest
      const { backup_id: backupId } = context.params
      const found = backups.find(({ id }) => id === backupId)
      if (!found) throw notFound('backup')
      const target = await openTarget(parts, found.targetId)
      const order = { $case: 'backupDelete', value: { uuid, target, backupId } } as const
      const { data } = await queueOrder(parts.fleet, context, { action: 'backup-delete', order })
      return queued(data, backupId)
    },
  })
}

function queued(data: Static<typeof QueuedSchema>, backupId: string): Answer<QueuedBackup> {
  return { status: 202, message: `${data.action} queued`, data: { ...data, backup_id: backupId } }
}

/**
 * Finds a backup at the target that the request names. If the request names no target, first searches the backups of
 * the container in the path, and then those of other containers that the caller may see.
 * @throws {BerthError} `not_found`
 */
function locate(view: FleetView, context: Context<BackupParams, RestoreBody | undefined>): BackupLocation {
  const { guest, caller, params, body } = context
  const told = body && toldPlace(caller, body)
  if (told) return told
  const found = findBackup([guest], params.backup_id) ?? findBackup(guestsOf(caller, view), params.backup_id)
  if (!found) throw notFound('backup')
  return found
}

function toldPlace(
  caller: Principal,
  { target_id: targetId, container_uuid: sourceUuid }: RestoreBody,
): BackupLocation | undefined {
  if (targetId === undefined || sourceUuid === undefined) return undefined
  if (isBound(caller)) throw notFound('backup')
  return { targetId, sourceUuid }
}
