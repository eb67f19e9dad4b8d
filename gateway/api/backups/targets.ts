import { Type, type Static } from 'typebox'
import { randomUUID } from 'node:crypto'
import type { PeriodicTasks } from '../../../shared/async/periodic-tasks.js'
import type { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { conflict } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { TargetFields } from '../../backups/plan-target.js'
import type { BackupTargets, TargetRecord } from '../../backups/targets.js'
import type { SubUsers } from '../../sub-users/sub-users.js'
import type { Fleet, FleetView } from '../../fleet/contract.js'
import { isEnded, operationStatusOf } from '../../fleet/lists/operation-table.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { unfinishedError } from '../guests/carry-out.js'
import { chooseHost } from '../host-choice.js'
import { ChangeTargetSchema, CreateTargetSchema, targetRow, TargetRowSchema, type TargetRow } from './target-schemas.js'

export interface BackupParts {
  readonly fleet: Fleet
  readonly targets: BackupTargets
  readonly time: TimeFormat
  /** Sub-users, who can own containers that are created from backups. */
  readonly subUsers: Pick<SubUsers, 'findAssignable' | 'update'>
  /** Sends the present targets to the hosts whose schedules use them. */
  readonly upkeep: Pick<PeriodicTasks, 'run'>
}

export const TargetPathSchema = Type.Object({ id: Type.String({ maxLength: 64 }) })

const CheckBodySchema = Type.Object(
  {
    host_id: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'Id of the host that tests the target. Default: the first host of the fleet that is online.',
      }),
    ),
  },
  { title: 'BackupTargetCheck' },
)

const CheckedSchema = Type.Object(
  {
    ok: Type.Boolean(),
    code: Type.String({ description: 'Error code of the failed test. Empty: the target works.' }),
    message: Type.String(),
    host_id: Type.String(),
    task_id: Type.String(),
  },
  { title: 'BackupTargetChecked' },
)

const RemoveQuerySchema = Type.Object({
  force: Type.Optional(
    Type.Boolean({
      description:
        '`true`: remove the target even if containers have backups or backup schedules on it. Their schedules are turned off. The data on the target is kept.',
    }),
  ),
})

const ofTargets = { bound: 'refused', tag: 'Backups' } as const

export function backupTargetRoutes(parts: BackupParts): Route[] {
  return [...readRoutes(parts), ...changeRoutes(parts), checkRoute(parts)]
}

function readRoutes(parts: BackupParts): Route[] {
  const { targets, fleet, time } = parts
  return [
    route({
      ...ofTargets,
      method: 'GET',
      path: '/backup-targets',
      name: 'listBackupTargets',
      scope: 'backuptarget:read',
      summary: 'Lists the backup targets by name, without secrets',
      data: Type.Array(TargetRowSchema),
      handle: async () => {
        const count = countBackups(fleet.view)
        const records = await targets.list()
        return { data: records.map((record) => targetRow(record, { backups: count(record.id), time })) }
      },
    }),
    route({
      ...ofTargets,
      method: 'GET',
      path: '/backup-targets/{id}',
      name: 'getBackupTarget',
      scope: 'backuptarget:read',
      summary: 'Returns a backup target, without secrets',
      params: TargetPathSchema,
      data: TargetRowSchema,
      handle: async ({ params }) => ({ data: rowOf(parts, await targets.get(params.id)) }),
    }),
  ]
}

function changeRoutes(parts: BackupParts): Route[] {
  const { targets } = parts
  return [
    route({
      ...ofTargets,
      method: 'POST',
      path: '/backup-targets',
      name: 'createBackupTarget',
      scope: 'backuptarget:manage',
      audit: 'backup_target.create',
      summary: 'Adds a backup target. This does not write anything to the target',
      body: CreateTargetSchema,
      example: {
        name: 'vault',
        type: 'sftp',
        host: 'backup.example.com',
        user: 'berth',
        path: '/backups',
        private_key: '-----BEGIN OPENSSH PRIVATE KEY-----\n…',
        host_key: 'ssh-ed25519 AAAA…',
        encryption_password: 'a long password, stored elsewhere too',
      },
      data: TargetRowSchema,
      statuses: [201],
      errors: ['name_conflict', 'resource_exhausted'],
      handle: async (context) => {
        const { name, type } = context.body
        context.audit({ target: name, detail: type })
        const record = await targets.create(context.operationId, fieldsIn(context.body))
        return { status: 201, message: 'backup target added', data: rowOf(parts, record) }
      },
    }),
    route({
      ...ofTargets,
      method: 'PATCH',
      path: '/backup-targets/{id}',
      name: 'updateBackupTarget',
      scope: 'backuptarget:manage',
      audit: 'backup_target.update',
      summary:
        'Changes a backup target. Omitted fields stay unchanged. The type and the encryption password cannot be changed',
      params: TargetPathSchema,
      body: ChangeTargetSchema,
      example: { verify_percent: 10 },
      data: TargetRowSchema,
      errors: ['name_conflict'],
      handle: async (context) => {
        const { params, body } = context
        context.audit({ target: params.id, detail: Object.keys(fieldsIn(body)).join(', ') })
        const record = await targets.update(params.id, fieldsIn(body))
        await parts.upkeep.run()
        return { message: 'backup target changed', data: rowOf(parts, record) }
      },
    }),
    route({
      ...ofTargets,
      method: 'DELETE',
      path: '/backup-targets/{id}',
      name: 'deleteBackupTarget',
      scope: 'backuptarget:manage',
      audit: 'backup_target.delete',
      summary: 'Removes a backup target from Berth. The data on the target is kept',
      params: TargetPathSchema,
      query: RemoveQuerySchema,
      errors: ['invalid_state'],
      handle: (context) => removeTarget(parts, context),
    }),
  ]
}

async function removeTarget(
  { targets, fleet, upkeep }: BackupParts,
  context: RequestContext<{ id: string }, Static<typeof RemoveQuerySchema>, unknown>,
): Promise<Answer<never>> {
  const { params, query } = context
  const { id, shown } = await targets.get(params.id)
  const backups = countBackups(fleet.view)(id)
  const scheduled = countScheduled(fleet.view, id)
  context.audit({ target: shown.name, detail: `id ${id}, ${backups} backups, ${scheduled} schedules` })
  if (backups + scheduled > 0 && !query.force)
    throw conflict(
      'invalid_state',
      `containers have ${backups} backups and ${scheduled} schedules on this target: delete them first, or use force`,
    )
  await targets.remove(id)
  await upkeep.run()
  return { message: 'backup target removed' }
}

function checkRoute(parts: BackupParts): Route {
  return route({
    ...ofTargets,
    method: 'POST',
    path: '/backup-targets/{id}/check',
    name: 'checkBackupTarget',
    scope: 'backuptarget:manage',
    audit: 'backup_target.check',
    summary:
      'Tests a backup target: a host writes a small file, reads it back and deletes it. The answer contains the result',
    params: TargetPathSchema,
    body: CheckBodySchema,
    bodyOptional: true,
    example: { host_id: '6f0f3f6a-0d2e-4f0e-9f0a-6d7f1f1d2c3b' },
    data: CheckedSchema,
    errors: ['host_offline', 'agent_timeout'],
    handle: (context) => checkTarget(parts, context),
  })
}

/** Maximum time in ms that a request waits for the result of a check. A longer check continues as a task. */
const waitMs = 120_000

async function checkTarget(
  { fleet, targets }: BackupParts,
  context: RequestContext<{ id: string }, unknown, Static<typeof CheckBodySchema> | undefined>,
): Promise<Answer<Static<typeof CheckedSchema>>> {
  const target = await targets.open(context.params.id)
  const { id: hostId } = chooseHost(fleet.view, context.body?.host_id)
  // Each attempt gets a new id, so that a repeated request tests the target again and does not return the old result.
  const operationId = randomUUID()
  context.audit({ target: target.name, detail: `host ${hostId}, task ${operationId}` })
  const { revision } = await fleet.agent(hostId).operations.submitOperation({
    operationId,
    requestedBy: context.caller.user,
    order: { $case: 'backupTargetCheck', value: { target } },
  })
  await fleet.reached(hostId, revision)
  const ended = await fleet.ended({ hostId, operationId }, waitMs)
  if (!ended || !isEnded(ended.operation)) throw unfinishedError(fleet, { hostId, operationId })
  return { data: { ...outcomeOf(ended.operation), host_id: hostId, task_id: operationId } }
}

function outcomeOf(operation: Operation): Pick<Static<typeof CheckedSchema>, 'ok' | 'code' | 'message'> {
  const ok = operationStatusOf(operation) === 'done'
  if (ok) return { ok, code: '', message: 'the target works' }
  // The caller sees only errors about the target. Other errors are for the operator of the host.
  const isTold = operation.errorCode.startsWith('backup_')
  return isTold
    ? { ok, code: operation.errorCode, message: operation.error }
    : { ok, code: 'agent_error', message: 'the test failed on the host, or was canceled' }
}

/** Selects the documented fields, because bodies can contain other fields. */
function fieldsIn(body: Static<typeof ChangeTargetSchema>): TargetFields {
  const known = Object.keys(ChangeTargetSchema.properties)
  return Object.fromEntries(Object.entries(body).filter(([field]) => known.includes(field)))
}

function rowOf({ fleet, time }: BackupParts, record: TargetRecord): TargetRow {
  return targetRow(record, { backups: countBackups(fleet.view)(record.id), time })
}

function countScheduled(view: FleetView, targetId: string): number {
  return [...view.guests()].filter(
    ({ guest: { backupSchedule } }) => backupSchedule?.enabled && backupSchedule.targetId === targetId,
  ).length
}

function countBackups(view: FleetView): (targetId: string) => number {
  const counts = new Map<string, number>()
  for (const { guest } of view.guests())
    for (const { targetId } of guest.backups) counts.set(targetId, (counts.get(targetId) ?? 0) + 1)
  return (targetId) => counts.get(targetId) ?? 0
}
