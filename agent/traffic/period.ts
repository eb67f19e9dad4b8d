import type { TimeFormat } from '../../shared/time.js'

/*
 * Traffic periods. A period is named by its first day, YYYY-MM-DD in the host's time zone. The first day is the reset
 * day, 1 to 31, or the last day in shorter months.
 */

/** The period that a count belongs to. */
export interface CountedPeriod {
  readonly periodStart: string
  /** The period that counting left when the clock was set far back; empty: there was none. */
  readonly periodLeft: string
}

/** A count's next period, and whether counting restarts with it. */
export interface Advance extends CountedPeriod {
  readonly reset: boolean
}

/** First day of the period that contains `nowMs`. */
export function periodStart(nowMs: number, resetDay: number, time: TimeFormat): string {
  const today = time.format(nowMs).slice(0, 10)
  const [year, month] = parseDate(today)
  const start = resetDate(year, month, resetDay)
  return start <= today ? start : resetDate(year, month - 1, resetDay)
}

/** First day of the following period. A period that began on another reset day keeps its own day. */
export function nextPeriodStart(start: string, resetDay: number): string {
  const [year, month] = parseDate(start)
  return resetDate(year, month + 1, resetDayOf(start, resetDay))
}

/** End of the period: the first instant of the next one's first day. */
export function periodEndMs(start: string, resetDay: number, time: TimeFormat): number {
  const end = time.parse(`${nextPeriodStart(start, resetDay)} 00:00:00`)
  if (end === undefined) throw new Error(`no such day: ${start}`)
  return end
}

/** Offset of the zone at that time, east of UTC. */
export function utcOffsetMinutes(ms: number, time: TimeFormat): number {
  return Math.round((Date.parse(`${time.format(ms).replace(' ', 'T')}Z`) - ms) / 60_000)
}

/**
 * Advances a count's period to the present clock and reset day. Each period restarts counting once. If the clock goes
 * back by a month, the period stays, and counting restarts only after it. If it goes back further, it was wrong before
 * or is wrong now. The new period is then used without a restart, so that its months advance, and returning to the
 * period that was left does not restart either. Another reset day moves the period without restarting.
 * @param counted as stored; undefined: nothing was counted yet
 * @param startOf returns the first day of the present period by reset day
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
 * The reset day that a period began with: the present reset day if it yields that first day, otherwise the day itself.
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

/** The reset day in that month, or the month's last day if it is shorter. Month may be 0 or 13. */
function resetDate(year: number, month: number, resetDay: number): string {
  const lastDay = new Date(Date.UTC(year, month, 0)).getUTCDate()
  return new Date(Date.UTC(year, month - 1, Math.min(resetDay, lastDay))).toISOString().slice(0, 10)
}
