import { Type, type Static } from 'typebox'
import { BackupSchedule } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BackupScheduleChange } from '../../../proto/gen/berth/agent/v1/network.js'
import type { TimeFormat } from '../../../shared/time.js'
import { route, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { backupScheduleFields } from '../guests/backup-schedule-body.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { ScheduleSchema as SnapshotScheduleSchema, scheduleRow } from '../guests/snapshot-schedule.js'
import { changeSetting, describeFields } from '../guests/guest-settings.js'
import { targetIdFor } from '../target-choice.js'
import type { BackupParts } from './targets.js'

const { retention: _of, ...runs } = SnapshotScheduleSchema.properties

export const BackupScheduleSchema = Type.Object(
  {
    ...runs,
    interval_hours: Type.Integer({ description: 'Hours between two backups. 0: the schedule was never set.' }),
    time: Type.String({
      description:
        'Time of day of a backup: `HH:MM` in the time zone of the container’s host. The next backups follow at multiples of `interval_hours` from this time.',
    }),
    retention: Type.Integer({
      description:
        'Number of scheduled backups of the container that the target retains. 0: as many as a container can have.',
    }),
    target_id: Type.String({ description: 'Id of the backup target. Empty: no target was ever chosen.' }),
    target_name: Type.String({
      description: 'Name of the backup target. Empty: the target was removed, or none was ever chosen.',
    }),
  },
  { title: 'BackupSchedule' },
)

const BodySchema = Type.Object(
  {
    enabled: Type.Boolean({ description: '`true`: turn the schedule on. `false`: turn it off.' }),
    ...backupScheduleFields(
      'Required when a schedule is enabled for the first time. If omitted or 0, it is unchanged.',
    ),
  },
  { title: 'NewBackupSchedule' },
)
type ScheduleBody = Static<typeof BodySchema>

const ResultSchema = Type.Object(
  {
    container: Type.Object({
      id: Type.Integer(),
      name: Type.String(),
      backup_schedule_enabled: Type.Boolean(),
      backup_schedule_interval_hours: Type.Integer(),
      backup_schedule_time: Type.String(),
      backup_schedule_retention: Type.Integer(),
      backup_schedule_target_id: Type.String(),
    }),
  },
  { title: 'BackupScheduleResult' },
)

export function backupScheduleRoute(parts: BackupParts): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/backups/schedule',
    name: 'setBackupSchedule',
    scope: 'backup:schedule',
    bound: 'guest',
    subUser: 'refused',
    tag: 'Backups',
    audit: 'backup.schedule',
    summary:
      'Sets the times and the target of the backup schedule of a container. Fields that are not sent stay unchanged',
    params: ContainerPathSchema,
    body: BodySchema,
    example: { enabled: true, interval_hours: 24, time: '03:30', retention: 7 },
    data: ResultSchema,
    conditional: true,
    errors: [
      'missing_field',
      'invalid_state',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
      'backup_target_missing',
    ],
    handle: async (context) => {
      const { target_id: _chosen, interval_hours: intervalHours, ...sent } = context.body
      const value = BackupScheduleChange.fromPartial({
        ...sent,
        intervalHours,
        createdBy: context.caller.user,
        ...(await chosenTarget(parts, context)),
      })
      const change = { $case: 'backupSchedule', value } as const
      const { guest } = await changeSetting(parts.fleet, context, { change, detail: describeFields(context.body) })
      return { message: 'schedule updated', data: resultOf(guest, guest.backupSchedule) }
    },
  })
}

/**
 * Returns the backup target that the request names. If the request names none, but enables a schedule without a target,
 * returns the only existing target.
 * @throws {BerthError} `missing_field` if there are several targets, `backup_target_missing`
 */
async function chosenTarget(
  { targets }: BackupParts,
  { body, guest: { guest } }: RequestContext<unknown, unknown, ScheduleBody> & Subjects['guest'],
): Promise<Partial<BackupScheduleChange>> {
  const known = guest.backupSchedule?.targetId || undefined
  if (body.target_id === undefined && (known !== undefined || !body.enabled)) return {}
  const id = await targetIdFor({ targets }, body.target_id)
  const { uuid, name, id: number } = guest
  await targets.note(id, { uuid, name, id: number })
  const { changedAtMs } = await targets.get(id)
  return { target: await targets.open(id), targetChangedAtMs: changedAtMs }
}

function resultOf(
  { id, name }: { readonly id: number; readonly name: string },
  schedule = BackupSchedule.create(),
): Static<typeof ResultSchema> {
  return {
    container: {
      id,
      name,
      backup_schedule_enabled: schedule.enabled,
      backup_schedule_interval_hours: schedule.intervalHours,
      backup_schedule_time: schedule.time,
      backup_schedule_retention: schedule.retention,
      backup_schedule_target_id: schedule.targetId,
    },
  }
}

/** @param schedule undefined: no schedule was ever set @param targetNames names of backup targets by id */
export function backupScheduleRow(
  schedule: BackupSchedule | undefined,
  { targetNames, time }: { readonly targetNames: ReadonlyMap<string, string>; readonly time: TimeFormat },
): Static<typeof BackupScheduleSchema> {
  const targetId = schedule?.targetId ?? ''
  return {
    ...scheduleRow(schedule, time, undefined),
    target_id: targetId,
    target_name: targetNames.get(targetId) ?? '',
  }
}
