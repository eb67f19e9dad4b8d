import type { TimeFormat } from '../../shared/time.js'

/*
 * This module computes traffic periods. A period is identified by its first day, YYYY-MM-DD in the host's time zone.
 * The first day is the reset day, 1 to 31, or the last day of a shorter month.
 */

/** The period to which a traffic count belongs. */
export interface CountedPeriod {
  readonly periodStart: string
  /** First day of the period that was left when the clock was set back by over a month. Empty: this never happened. */
  readonly periodLeft: string
}

/** The period in which traffic counts from now on. `reset`: the period is new, and counting starts at 0. */
export interface Advance extends CountedPeriod {
  readonly reset: boolean
}

/** Returns the first day of the period that contains `nowMs`. */
export function periodStart(nowMs: number, resetDay: number, time: TimeFormat): string {
  const today = time.format(nowMs).slice(0, 10)
  const [year, month] = parseDate(today)
  const start = resetDate(year, month, resetDay)
  return start <= today ? start : resetDate(year, month - 1, resetDay)
}

/** Returns the first day of the next period. Uses the reset day with which the period began (see `resetDayOf`). */
export function nextPeriodStart(start: string, resetDay: number): string {
  const [year, month] = parseDate(start)
  return resetDate(year, month + 1, resetDayOf(start, resetDay))
}

/** Returns the end of the period: the first instant of the next period's first day. */
export function periodEndMs(start: string, resetDay: number, time: TimeFormat): number {
  const end = time.parse(`${nextPeriodStart(start, resetDay)} 00:00:00`)
  if (end === undefined) throw new Error(`the day does not exist: ${start}`)
  return end
}

/** Returns the offset of the time zone at that time, in minutes. East of UTC it is positive. */
export function utcOffsetMinutes(ms: number, time: TimeFormat): number {
  return Math.round((Date.parse(`${time.format(ms).replace(' ', 'T')}Z`) - ms) / 60_000)
}

/**
 * Advances the period of a traffic count to the present clock and reset day. A new period resets the count. If the
 * clock goes back by up to a month, the period stays until its end. If the clock goes back further, it is wrong now or
 * was wrong before. The period then follows the clock, but neither this change nor a later return to the former period
 * resets the count. A change of the reset day moves the period, even without a reset.
 * @param counted the stored period; undefined: nothing was counted yet
 * @param startOf returns the first day of the present period for a reset day
 */
export function advancePeriod(
  counted: CountedPeriod | undefined,
  resetDay: number,
  startOf: (resetDay: number) => string,
): Advance {
  if (counted === undefined) return { periodStart: startOf(resetDay), periodLeft: '', reset: true }
  const { periodStart: start, periodLeft: left } = counted
  const startDay = resetDayOf(start, resetDay)
  const present = startOf(startDay)
  if (present > start) {
    const isBack = left !== '' && startOf(resetDayOf(left, resetDay)) === left
    return { periodStart: startOf(resetDay), periodLeft: '', reset: !isBack }
  }
  if (present < start && nextPeriodStart(present, startDay) < start)
    return { periodStart: startOf(resetDay), periodLeft: left > start ? left : start, reset: false }
  return { periodStart: present === start ? startOf(resetDay) : start, periodLeft: left, reset: false }
}

/**
 * Returns the reset day with which a period began. This is `resetDay` if a period with this reset day can begin on
 * `start`, otherwise the day of the month in `start`.
 */
function resetDayOf(start: string, resetDay: number): number {
  const [year, month, day] = parseDate(start)
  return resetDate(year, month, resetDay) === start ? resetDay : day
}

type DateParts = [year: number, month: number, day: number]

function parseDate(text: string): DateParts {
  const [year = 0, month = 0, day = 0] = text.split('-').map(Number)
  return [year, month, day]
}

/** Returns the date of the reset day or, in a shorter month, of its last day. Months 0 and 13 are in adjacent years. */
function resetDate(year: number, month: number, resetDay: number): string {
  const lastDay = new Date(Date.UTC(year, month, 0)).getUTCDate()
  return new Date(Date.UTC(year, month - 1, Math.min(resetDay, lastDay))).toISOString().slice(0, 10)
}
