import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { guestsOf, type Principal } from '../../access/principal.js'
import { actorDescription, ownNameOf, shownActor } from '../../access/shown-actor.js'
import { coversScope } from '../../access/scopes.js'
import type { BackupTargets } from '../../backups/targets.js'
import type { FleetView } from '../../fleet/contract.js'
import { countHeader, listQuery, parseListQuery, rangeOf } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'
import { selectFrom, type Fields } from '../../lists/query.js'
import { textFilter } from '../guests/guest-row.js'
import { findSchedules, runResults, scheduleKinds, type FoundSchedule, type ScheduleKind } from './find-schedules.js'

const KindSchema = oneOf(scheduleKinds)
const ResultSchema = oneOf(
  runResults,
  'Result of the last run: the status of its task. `never`: there was no run yet. `unknown`: the task of the run is no longer known, and neither is a copy that the run created.',
)

const needsTasks = 'Only callers with `task:read` receive it.'

const ScheduleRowSchema = Type.Object(
  {
    container_id: Type.Integer(),
    container_name: Type.String(),
    host_id: Type.String(),
    kind: KindSchema,
    enabled: Type.Boolean(),
    interval_hours: Type.Integer({ description: 'Hours between two runs.' }),
    time: Type.String({
      description:
        'Time of day of a run: `HH:MM` in the time zone of the container’s host. The next runs follow at multiples of `interval_hours` from this time.',
    }),
    retention: Type.Integer({
      description: 'Number of scheduled copies to retain. 0: as many as the container can have.',
    }),
    target_id: Type.String({ description: 'Id of the backup target. Empty for snapshots, or if it was removed.' }),
    target_name: Type.String({ description: 'Name of the backup target. Empty for snapshots, or if it was removed.' }),
    created_by: Type.String({ description: `Caller that last set the schedule. ${actorDescription}` }),
    last_run: timeSchema('the schedule ran last', 'it never ran'),
    last_result: ResultSchema,
    last_error: Type.String({
      description: `Error message of the last run in English. Empty: it did not fail. ${needsTasks}`,
    }),
    last_error_code: Type.String({
      description: `Stable error code of the last run. Empty: it did not fail. ${needsTasks}`,
    }),
    last_task_id: Type.String({ description: `Task of the last run. Empty: the task is not known. ${needsTasks}` }),
    next_run: timeSchema('the schedule will run next', 'it will not run, for example because it is disabled'),
  },
  { title: 'Schedule' },
)
type ScheduleRow = Static<typeof ScheduleRowSchema>

interface RowSources {
  readonly targetNames: ReadonlyMap<string, string>
  readonly time: TimeFormat
  readonly withTasks: boolean
  /** Result of `ownNameOf` for the reader. */
  readonly ownName: string | undefined
}

const fieldsFor = ({ targetNames }: Pick<RowSources, 'targetNames'>) =>
  ({
    container_id: ({ view }) => view.guest.id,
    container_name: ({ view }) => view.guest.name,
    host_id: ({ view }) => view.hostId,
    kind: ({ kind }) => kind,
    enabled: ({ schedule }) => String(schedule.enabled),
    interval_hours: ({ schedule }) => schedule.intervalHours,
    retention: ({ schedule }) => schedule.retention,
    target_id: ({ targetId }) => targetId,
    target_name: ({ targetId }) => targetNames.get(targetId) ?? '',
    last_run: ({ schedule }) => schedule.lastRunMs,
    last_result: ({ result }) => result,
    next_run: ({ schedule }) => schedule.nextRunMs,
  }) as const satisfies Fields<FoundSchedule, string>

const filters = ['container_name', 'host_id', 'kind', 'enabled', 'target_id', 'last_result'] as const
const sortable = Object.keys(fieldsFor({ targetNames: new Map() })) as (keyof ReturnType<typeof fieldsFor>)[]

interface Parts {
  readonly view: FleetView
  readonly targets: Pick<BackupTargets, 'list'>
  readonly time: TimeFormat
}

export function scheduleListRoute({ view, targets, time }: Parts): Route {
  return route({
    method: 'GET',
    path: '/schedules',
    name: 'listSchedules',
    sortable,
    query: listQuery({
      container_name: textFilter,
      host_id: textFilter,
      kind: KindSchema,
      enabled: Type.Boolean(),
      target_id: textFilter,
      last_result: ResultSchema,
    }),
    subUser: 'allowed',
    scope: 'container:read',
    bound: 'own',
    tag: 'Schedules',
    summary:
      'Lists the backup and snapshot schedules of all containers, with the results of their last runs. Backup schedules require `backup:read` as well, snapshot schedules `snapshot:read`',
    data: Type.Array(ScheduleRowSchema),
    handle: async ({ caller, query }) => {
      const withTasks = coversScope(caller.scopes, 'task:read')
      const shown = { targetNames: await readTargetNames(targets, caller), time, withTasks, ownName: ownNameOf(caller) }
      const found = findSchedules(guestsOf(caller, view), view, kindsFor(caller))
      const selected = selectFrom(found, fieldsFor(shown), parseListQuery(query, { sortable, filters }))
      const rows = selected.slice(...rangeOf(query)).map((one) => scheduleRow(one, shown))
      return { data: rows, headers: countHeader(selected.length) }
    },
  })
}

function kindsFor({ scopes }: Principal): ScheduleKind[] {
  return scheduleKinds.filter((kind) => coversScope(scopes, `${kind}:read`))
}

async function readTargetNames(targets: Parts['targets'], caller: Principal): Promise<Map<string, string>> {
  if (!kindsFor(caller).includes('backup')) return new Map()
  return new Map((await targets.list()).map(({ id, shown }) => [id, shown.name]))
}

function scheduleRow({ view, kind, schedule, targetId, result, task }: FoundSchedule, shown: RowSources): ScheduleRow {
  const { time, targetNames, withTasks, ownName } = shown
  const { id = '', error = '', errorCode = '' } = (withTasks && task?.operation) || {}
  return {
    container_id: view.guest.id,
    container_name: view.guest.name,
    host_id: view.hostId,
    kind,
    enabled: schedule.enabled,
    interval_hours: schedule.intervalHours,
    time: schedule.time,
    retention: schedule.retention,
    target_id: targetId,
    target_name: targetNames.get(targetId) ?? '',
    created_by: shownActor(schedule.createdBy, ownName),
    last_run: time.format(schedule.lastRunMs),
    last_result: result,
    last_error: error,
    last_error_code: errorCode,
    last_task_id: id,
    next_run: time.format(schedule.nextRunMs),
  }
}
