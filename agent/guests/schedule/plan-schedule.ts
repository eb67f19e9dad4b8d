import { BerthError, invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { limits, timeOfDayPattern } from '../../../shared/guest-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { SnapshotSchedule } from '../record/snapshots-and-backups.js'
import { firstDayOf, hourMs, nextSlotMs } from './plan-slots.js'

/** A change of a schedule. Undefined fields keep their value. */
export interface ScheduleChange {
  readonly enabled?: boolean | undefined
  readonly intervalHours?: number | undefined
  readonly time?: string | undefined
  readonly retention?: number | undefined
  readonly createdBy: string
}

const timeOfDay = new RegExp(timeOfDayPattern)

/** Checks the interval and the time of day. @throws {BerthError} `invalid_field` */
export function checkRuns({ intervalHours, time }: Pick<ScheduleChange, 'intervalHours' | 'time'>): void {
  if (intervalHours !== undefined) checkInteger('interval_hours', intervalHours, limits.snapshotIntervalHours)
  if (time !== undefined && !timeOfDay.test(time))
    throw invalidField('time', 'time: must be a time of day, for example "03:30"')
}

/** Delay in ms after which a run counts as missed, for example because the host or its agent was off. */
export const missedAfterMs = 15 * 60_000
/** Maximum delay in ms of a run that makes up for a missed run. Delays differ between guests, to spread the runs. */
export const catchUpWithinMs = 30 * 60_000
/** Largest jump of the local time in ms when its offset from UTC changes. */
const clockChangeMs = 24 * hourMs

/**
 * Plans a change of the schedule. If the schedule stays enabled with the same interval and time of day, the next runs
 * do not change. A client can therefore set the same schedule every day.
 * @throws {BerthError} `missing_field` if the schedule is enabled without an interval
 */
export function planSchedule<Schedule extends SnapshotSchedule>(
  old: Readonly<Schedule>,
  change: ScheduleChange,
  { nowMs, time }: { nowMs: number; time: TimeFormat },
): Schedule {
  const schedule: Schedule = { ...old, ...sentOf(change) }
  if (!schedule.enabled) return { ...schedule, firstDay: '', nextRunMs: 0 }
  if (schedule.intervalHours === 0)
    throw new BerthError('invalid', 'missing_field', 'interval_hours: is required', {
      field: 'interval_hours',
    })
  if (schedule.time === '') schedule.time = '00:00'
  const isSame = schedule.intervalHours === old.intervalHours && schedule.time === old.time
  if (old.enabled && isSame) return schedule
  const firstDay = firstDayOf(schedule.time, nowMs, time)
  return { ...schedule, firstDay, nextRunMs: nextSlotMs({ ...schedule, firstDay }, nowMs, time) }
}

function sentOf(change: ScheduleChange): Partial<SnapshotSchedule> {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
}

export type Look = { readonly kind: 'wait' } | { readonly kind: 'move' | 'run'; readonly nextRunMs: number }

export interface LookAt {
  readonly nowMs: number
  /** Returns the delay in ms, below `catchUpWithinMs`, of a run that makes up for a missed run. */
  readonly offsetMs: () => number
  /** True if runs are skipped now, for example because the guest is suspended. Skipped runs are not made up for. */
  readonly isHeld: boolean
  /** True for the first check after the agent's start. The time zone may have changed while no agent ran. */
  readonly isFirst: boolean
}

/**
 * Plans the next step of an enabled schedule. One additional run makes up for all missed runs, unless the next regular
 * run comes earlier.
 */
export function planLook(schedule: Readonly<SnapshotSchedule>, at: LookAt, time: TimeFormat): Look {
  const { nextRunMs } = schedule
  const { nowMs, offsetMs, isHeld, isFirst } = at
  const lateMs = nowMs - nextRunMs
  const isFar = -lateMs > schedule.intervalHours * hourMs + clockChangeMs // the next run was planned with a wrong clock
  if (lateMs < 0 && !isFar && !isFirst) return { kind: 'wait' }
  const regularMs = nextSlotMs(schedule, nowMs, time)
  if (lateMs < 0) return nextRunMs <= regularMs ? { kind: 'wait' } : { kind: 'move', nextRunMs: regularMs }
  if (isHeld) return { kind: 'move', nextRunMs: regularMs }
  if (lateMs > missedAfterMs) return { kind: 'move', nextRunMs: Math.min(nowMs + offsetMs(), regularMs) }
  return { kind: 'run', nextRunMs: regularMs }
}
