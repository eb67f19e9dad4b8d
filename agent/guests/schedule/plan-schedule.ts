import { BerthError } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { SnapshotSchedule } from '../record/record.js'
import { firstDayOf, hourMs, nextSlotMs } from './plan-slots.js'

/** What is not sent stays. */
export interface ScheduleChange {
  readonly enabled?: boolean | undefined
  readonly intervalHours?: number | undefined
  readonly time?: string | undefined
  readonly retention?: number | undefined
  readonly createdBy: string
}

/** Runs that are this late were missed: the host or its agent was off, or its clock was wrong. */
export const missedAfterMs = 15 * 60_000
/** What was missed is made up for within this time, each guest at a moment of its own. */
export const catchUpWithinMs = 30 * 60_000
/** Clocks change by no more. */
const clockChangeMs = 24 * hourMs

/**
 * The schedule once it is changed. One that keeps its interval and time of day keeps its runs: who sets it daily puts
 * nothing off.
 * @throws {BerthError} `missing_field` where it is on without an interval
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
  /** The guest's own, below `catchUpWithinMs`. */
  readonly offsetMs: () => number
  /** Nothing is taken of the guest now; what comes due meanwhile is left out. */
  readonly isHeld: boolean
  /** Of an agent that starts: its time zone may be another one than before. */
  readonly isFirst: boolean
}

/**
 * What to do about a schedule that is on. What was missed is run once, however often it was missed, unless the regular
 * run comes before that.
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
