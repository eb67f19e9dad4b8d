import type { BackupSchedule, Guest, SnapshotSchedule } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { FleetView, GuestView, OperationView } from '../../fleet/contract.js'
import { operationStatuses, operationStatusOf } from '../../fleet/lists/operation-table.js'

export const scheduleKinds = ['backup', 'snapshot'] as const
export type ScheduleKind = (typeof scheduleKinds)[number]

/** Result of the last run. `never`: there was no run yet. `unknown`: the task of the run is no longer known. */
export const runResults = [...operationStatuses, 'never', 'unknown'] as const
export type RunResult = (typeof runResults)[number]

export interface FoundSchedule {
  readonly view: GuestView
  readonly kind: ScheduleKind
  readonly schedule: SnapshotSchedule
  /** Target of the backups. Empty: the schedule takes snapshots, or the target was removed. */
  readonly targetId: string
  readonly result: RunResult
  /** Task of the last run. `undefined`: it is not known, or there was no run. */
  readonly task: OperationView | undefined
}

type Tasks = Pick<FleetView, 'latestOperation'>

/** Finds the schedules that were ever set for these guests, ordered by the ids of the guests. */
export function findSchedules(
  guests: Iterable<GuestView>,
  tasks: Tasks,
  kinds: readonly ScheduleKind[],
): FoundSchedule[] {
  const ordered = [...guests].sort((a, b) => a.guest.id - b.guest.id)
  return ordered.flatMap((view) => kinds.flatMap((kind) => findSchedule(view, tasks, kind) ?? []))
}

function findSchedule(view: GuestView, tasks: Tasks, kind: ScheduleKind): FoundSchedule | undefined {
  const { guest } = view
  const schedule: SnapshotSchedule | BackupSchedule | undefined = guest[`${kind}Schedule`]
  if (!schedule || schedule.intervalHours === 0) return undefined
  const task = findLastTask(tasks, { uuid: guest.uuid, kind, lastRunMs: schedule.lastRunMs })
  const targetId = 'targetId' in schedule ? schedule.targetId : ''
  return { view, kind, schedule, targetId, task, result: resultOf(guest, { kind, schedule, task }) }
}

/** Maximum time in ms from the creation of a run's task to the time of this run in the schedule's record. */
const toleranceMs = 60_000

/** Finds the task of the last run. Returns undefined if the newest task belongs to an earlier run. */
function findLastTask(
  tasks: Tasks,
  { uuid, kind, lastRunMs }: { readonly uuid: string; readonly kind: ScheduleKind; readonly lastRunMs: number },
): OperationView | undefined {
  if (lastRunMs === 0) return undefined
  const task = tasks.latestOperation(uuid, `${kind}-scheduled`)
  return task && task.operation.createdAtMs >= lastRunMs - toleranceMs ? task : undefined
}

/** Returns the result of the last run. Without its task, a backup or snapshot of this run shows that it succeeded. */
function resultOf(
  { backups, snapshots }: Guest,
  { kind, schedule, task }: Pick<FoundSchedule, 'kind' | 'schedule' | 'task'>,
): RunResult {
  if (task) return operationStatusOf(task.operation)
  if (schedule.lastRunMs === 0) return 'never'
  const copies = kind === 'backup' ? backups : snapshots
  const exists = copies.some(({ scheduled, createdAtMs }) => scheduled && createdAtMs === schedule.lastRunMs)
  return exists ? 'done' : 'unknown'
}
