import { BerthError } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { SnapshotSchedule } from '../record/snapshots-and-backups.js'
import { firstDayOf, hourMs, nextSlotMs } from './plan-slots.js'

/** Undefined fields stay. */
export interface ScheduleChange {
  readonly enabled?: boolean | undefined
  readonly intervalHours?: number | undefined
  readonly time?: string | undefined
  readonly retention?: number | undefined
  readonly createdBy: string
}

/** Runs that are this late count as missed: the host or its agent was off, or its clock was wrong. */
export const missedAfterMs = 15 * 60_000
/** A missed run is made up for within this time, at a different moment for each guest. */
export const catchUpWithinMs = 30 * 60_000
/** Largest change of the clocks. */
const clockChangeMs = 24 * hourMs

/**
 * Plans a change of the schedule. If interval and time of day stay, the next runs stay too: setting the same schedule
 * daily does not postpone anything.
 * @throws {BerthError} `missing_field` if it is enabled without an interval
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
  /** Returns the guest's own offset, below `catchUpWithinMs`. */
  readonly offsetMs: () => number
  /** True if the schedule is suspended for the guest now; runs that are due meanwhile are skipped. */
  readonly isHeld: boolean
  /** True at the agent's start: its time zone may have changed. */
  readonly isFirst: boolean
}

/**
 * Plans the next step of an enabled schedule. Missed runs are made up for by a single one, unless the regular run comes
 * first.
 */
export function planLook(schedule: Readonly<SnapshotSchedule>, at: LookAt, time: TimeFormat): Look {
  const { nextRunMs } = schedule
  const { nowMs, offsetMs, isHeld, isFirst } = at
  const lateMs = nowMs - nextRunMs
  const isFar = -lateMs > schedule.intervalHours * hourMs + clockChangeMs // the clock was wrong
  if (lateMs < 0 && !isFar && !isFirst) return { kind: 'wait' }
  const regularMs = nextSlotMs(schedule, nowMs, time)
  if (lateMs < 0) return nextRunMs <= regularMs ? { kind: 'wait' } : { kind: 'move', nextRunMs: regularMs }
  if (isHeld) return { kind: 'move', nextRunMs: regularMs }
  if (lateMs > missedAfterMs) return { kind: 'move', nextRunMs: Math.min(nowMs + offsetMs(), regularMs) }
  return { kind: 'run', nextRunMs: regularMs }
}
