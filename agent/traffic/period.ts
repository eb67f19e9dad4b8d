import type { TimeFormat } from '../../shared/time.js'

/*
 * Months of traffic. A period is named by its first day, YYYY-MM-DD in the host's time zone; its day of the
 * month is the reset day, 1 to 28, so that every month has it.
 */

/** The period that a count is of. */
export interface CountedPeriod {
  readonly periodStart: string
  /** The period that a clock which went far back has left; empty: none. */
  readonly periodLeft: string
}

/** What a count's period becomes, and whether counting begins anew with it. */
export interface Advance extends CountedPeriod {
  readonly reset: boolean
}

/** First day of the period that `nowMs` lies in. */
export function periodStart(nowMs: number, resetDay: number, time: TimeFormat): string {
  const [year, month, day] = dateOf(nowMs, time)
  return day >= resetDay ? dateText(year, month, resetDay) : dateText(year, month - 1, resetDay)
}

/** First day of the period after it. */
export function nextPeriodStart(start: string): string {
  const [year, month, day] = parseDate(start)
  return dateText(year, month + 1, day)
}

/** The period's end: the first instant of the next one's first day. */
export function periodEndMs(start: string, time: TimeFormat): number {
  const end = time.parse(`${nextPeriodStart(start)} 00:00:00`)
  if (end === undefined) throw new Error(`no such day: ${start}`)
  return end
}

/** Of the zone's clocks at that time, east of UTC. */
export function utcOffsetMinutes(ms: number, time: TimeFormat): number {
  return Math.round((Date.parse(`${time.format(ms).replace(' ', 'T')}Z`) - ms) / 60_000)
}

/**
 * The period of a count, as clock and reset day are now. A month resets once: a clock that goes back by a month leaves the
 * period as it is, and counting begins anew only beyond it. One that goes back further was wrong before or is wrong
 * now: its period is taken without a reset, so that its months turn, and there is none when it comes back to the one
 * it left. Another reset day moves the period and resets nothing by itself.
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

/** Months may be 0 or 13. */
function dateText(year: number, month: number, day: number): string {
  return new Date(Date.UTC(year, month - 1, day)).toISOString().slice(0, 10)
}
