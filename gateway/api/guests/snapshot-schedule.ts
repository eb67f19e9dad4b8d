import { Type, type Static } from 'typebox'
import { SnapshotSchedule } from '../../../proto/gen/berth/agent/v1/guest.js'
import { limits, timeOfDayPattern } from '../../../shared/guest-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import { SnapshotScheduleChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { actorDescription, shownActor } from '../../access/shown-actor.js'
import type { Fleet } from '../../fleet/contract.js'
import { trimmed, zeroIsAbsent } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { timeSchema } from '../../http/schema.js'
import { ContainerPathSchema } from './containers.js'
import { integerWithin } from './setting-schemas.js'
import { changeSetting, describeFields } from './guest-settings.js'

const optional = Type.Optional
const { snapshotIntervalHours: interval } = limits

export const ScheduleSchema = Type.Object(
  {
    enabled: Type.Boolean(),
    interval_hours: Type.Integer({ description: 'Hours between two snapshots. 0: the schedule was never set.' }),
    last_run: timeSchema('the schedule ran last', 'it never ran'),
    next_run: timeSchema('the schedule will run next', 'it is disabled'),
    time: Type.String({
      description:
        'Time of day of a snapshot: `HH:MM` in the time zone of the container’s host. The next snapshots follow at multiples of `interval_hours` from this time.',
    }),
    retention: Type.Integer({
      description: 'Number of scheduled snapshots to retain. 0: as many as `snapshot_limit` of the container allows.',
    }),
    created_by: Type.String({ description: `Caller that last set the schedule. ${actorDescription}` }),
  },
  { title: 'SnapshotSchedule' },
)

const ScheduleBodySchema = Type.Object(
  {
    enabled: Type.Boolean({ description: '`true`: turn the schedule on. `false`: turn it off.' }),
    interval_hours: optional(
      Type.Integer({
        minimum: interval.min,
        maximum: interval.max,
        ...zeroIsAbsent,
        description:
          'Hours between two snapshots. Required when a schedule is enabled for the first time. If omitted or 0, it is unchanged.',
      }),
    ),
    time: optional(
      Type.String({
        ...trimmed,
        pattern: timeOfDayPattern,
        examples: ['03:30'],
        description:
          'Time of day of the first snapshot: `HH:MM` in the time zone of the container’s host. Further ones follow every `interval_hours` hours. Default: 00:00.',
      }),
    ),
    retention: integerWithin(
      limits.snapshots,
      'Number of scheduled snapshots to retain; older ones are deleted. 0: as many as `snapshot_limit` of the container allows. The schedule never deletes snapshots that a caller requested.',
    ),
  },
  { title: 'NewSnapshotSchedule' },
)

const ScheduleResultSchema = Type.Object(
  {
    container: Type.Object({
      id: Type.Integer(),
      name: Type.String(),
      snapshot_schedule_enabled: Type.Boolean(),
      snapshot_schedule_interval_hours: Type.Integer(),
      snapshot_schedule_time: Type.String(),
      snapshot_schedule_retention: Type.Integer(),
    }),
  },
  { title: 'SnapshotScheduleResult' },
)

export function scheduleRoute(fleet: Fleet): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/snapshots/schedule',
    name: 'setSnapshotSchedule',
    subUser: 'allowed',
    scope: 'snapshot:schedule',
    bound: 'guest',
    tag: 'Snapshots',
    audit: 'snapshot.schedule',
    summary: 'Sets the snapshot schedule of a container. Fields that are not sent stay unchanged',
    params: ContainerPathSchema,
    body: ScheduleBodySchema,
    example: { enabled: true, interval_hours: 24, time: '03:30', retention: 3 },
    data: ScheduleResultSchema,
    conditional: true,
    errors: ['missing_field', 'invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: async (context) => {
      const { interval_hours: intervalHours, ...sent } = context.body
      const value = SnapshotScheduleChange.fromPartial({ ...sent, intervalHours, createdBy: context.caller.user })
      const change = { $case: 'snapshotSchedule', value } as const
      const { guest } = await changeSetting(fleet, context, { change, detail: describeFields(context.body) })
      return { message: 'schedule updated', data: scheduleResult(guest, guest.snapshotSchedule) }
    },
  })
}

function scheduleResult(
  { id, name }: { id: number; name: string },
  schedule = SnapshotSchedule.create(),
): Static<typeof ScheduleResultSchema> {
  return {
    container: {
      id,
      name,
      snapshot_schedule_enabled: schedule.enabled,
      snapshot_schedule_interval_hours: schedule.intervalHours,
      snapshot_schedule_time: schedule.time,
      snapshot_schedule_retention: schedule.retention,
    },
  }
}

/**
 * @param schedule undefined: the agent does not support schedules
 * @param ownName result of `ownNameOf` for the reader
 */
export function scheduleRow(
  schedule: SnapshotSchedule | undefined,
  time: TimeFormat,
  ownName: string | undefined,
): Static<typeof ScheduleSchema> {
  const {
    enabled,
    intervalHours,
    retention,
    createdBy,
    lastRunMs,
    nextRunMs,
    time: timeOfDay,
  } = {
    ...SnapshotSchedule.create(),
    ...schedule,
  }
  return {
    enabled,
    interval_hours: intervalHours,
    time: timeOfDay,
    retention,
    created_by: shownActor(createdBy, ownName),
    last_run: time.format(lastRunMs),
    next_run: time.format(nextRunMs),
  }
}
