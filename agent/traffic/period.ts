import type { TimeFormat } from '../../shared/time.js'

/*
 * Periods of traffic. A period is named by its first day, YYYY-MM-DD in the host's time zone; the day of the month is
 * the reset day, 1 to 28, which every month has.
 */

/** The period that a count belongs to. */
export interface CountedPeriod {
  readonly periodStart: string
  /** The period that was left when the clock went far back; empty: none. */
  readonly periodLeft: string
}

/** A count's next period, and whether counting restarts with it. */
export interface Advance extends CountedPeriod {
  readonly reset: boolean
}

/** First day of the period that contains `nowMs`. */
export function periodStart(nowMs: number, resetDay: number, time: TimeFormat): string {
  const [year, month, day] = dateOf(nowMs, time)
  return day >= resetDay ? dateText(year, month, resetDay) : dateText(year, month - 1, resetDay)
}

/** First day of the following period. */
export function nextPeriodStart(start: string): string {
  const [year, month, day] = parseDate(start)
  return dateText(year, month + 1, day)
}

/** End of the period: the first instant of the next one's first day. */
export function periodEndMs(start: string, time: TimeFormat): number {
  const end = time.parse(`${nextPeriodStart(start)} 00:00:00`)
  if (end === undefined) throw new Error(`no such day: ${start}`)
  return end
}

/** Offset of the zone at that time, east of UTC. */
export function utcOffsetMinutes(ms: number, time: TimeFormat): number {
  return Math.round((Date.parse(`${time.format(ms).replace(' ', 'T')}Z`) - ms) / 60_000)
}

/**
 * Advances a count's period to the present clock and reset day. A period restarts counting once: when the clock goes
 * back by a month, the period stays, and counting restarts only after it. When it goes back further, it was wrong
 * before or is wrong now: the new period is taken without a restart, so that its months turn, and returning to the
 * period that was left does not restart either. Another reset day moves the period without restarting.
 * @param counted as stored; undefined: nothing was counted yet
 * @param startOf first day of the present period by reset day
 */
export function advancePeriod(
  counted: CountedPeriod | undefined,
  resetDay: number,
  startOf: (resetDay: number) => string,
): Advance {
  if (counted === undefined) return { periodStart: startOf(resetDay), periodLeft: '', reset: true }
  const { periodStart: start, periodLeft: left } = counted
  const present = startOf(dayOf(start))
  if (present > start) {
    const isBack = left !== '' && startOf(dayOf(left)) === left
    return { periodStart: startOf(resetDay), periodLeft: '', reset: !isBack }
  }
  if (present < start && nextPeriodStart(present) < start)
    return { periodStart: startOf(resetDay), periodLeft: left > start ? left : start, reset: false }
  return { periodStart: present === start ? startOf(resetDay) : start, periodLeft: left, reset: false }
}

function dayOf(start: string): number {
  return parseDate(start)[2]
}

function dateOf(ms: number, time: TimeFormat): DateParts {
  return parseDate(time.format(ms).slice(0, 10))
}

type DateParts = [year: number, month: number, day: number]

function parseDate(text: string): DateParts {
  const [year = 0, month = 0, day = 0] = text.split('-').map(Number)
  return [year, month, day]
}

/** Formats a date; month may be 0 or 13. */
function dateText(year: number, month: number, day: number): string {
  return new Date(Date.UTC(year, month - 1, day)).toISOString().slice(0, 10)
}
