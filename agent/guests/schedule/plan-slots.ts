import type { TimeFormat } from '../../../shared/time.js'
import type { SnapshotSchedule } from '../record/snapshots-and-backups.js'

/*
 * Decides when a schedule is due. The first run is at `time` of the first day. The time between two runs is a multiple
 * of the interval, in the host's local time. Therefore a daily run keeps its time of day when the clocks change, and a
 * run every six hours keeps its four times. If the clocks skip the time of a run, the run is later by the length of the
 * jump. If the clocks show the time of a run twice, the run is at the first of these times. Only an hourly schedule
 * runs at both.
 */

type Grid = Pick<SnapshotSchedule, 'intervalHours' | 'time' | 'firstDay'>

export const hourMs = 3_600_000

/** Returns the time of the first run after `afterMs`. `afterMs` can also be before the schedule's first day. */
export function nextSlotMs(grid: Grid, afterMs: number, time: TimeFormat): number {
  const stepMs = grid.intervalHours * hourMs
  const originMs = Date.parse(`${grid.firstDay}T${grid.time}:00Z`)
  const passed = Math.floor((wallMs(afterMs, time) - originMs) / stepMs)
  const near = [-1, 0, 1, 2].map((steps) => originMs + (passed + steps) * stepMs)
  const instants = near.flatMap((wall) => instantsOf(wall, grid.intervalHours === 1, time))
  return Math.min(...instants.filter((ms) => ms > afterMs))
}

/** Returns the day of the first run of a schedule that is set now: today, or tomorrow if its time of day has passed. */
export function firstDayOf(timeOfDay: string, nowMs: number, time: TimeFormat): string {
  const firstDay = time.format(nowMs).slice(0, 10)
  const first = nextSlotMs({ intervalHours: 24, time: timeOfDay, firstDay }, nowMs, time)
  return time.format(first).slice(0, 10)
}

/** Returns the local time of the zone in ms, as if it were UTC. */
function wallMs(ms: number, time: TimeFormat): number {
  return Date.parse(`${time.format(ms).replace(' ', 'T')}Z`)
}

/** Returns the times at which the clocks show `wall`. @param twice true: returns both times if there are two */
function instantsOf(wall: number, twice: boolean, time: TimeFormat): number[] {
  const first = time.parse(new Date(wall).toISOString().slice(0, 19)) ?? Infinity
  return twice && wallMs(first + hourMs, time) === wall ? [first, first + hourMs] : [first]
}
