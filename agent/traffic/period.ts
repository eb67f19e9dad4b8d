import type { TimeFormat } from '../../shared/time.js'

/*
 * Months of traffic. A period is named by its first day, YYYY-MM-DD in the host's time zone; its day of the
 * month is the reset day, 1 to 28, so that every month has it.
 */

/** What a count's period becomes, and whether counting begins anew with it. */
export interface Advance {
  readonly start: string
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

/**
 * The period of a count, as clock and reset day are now. A month resets once: a clock that goes back leaves the period
 * as it is, and counting begins anew only beyond it. Another reset day moves the period and resets nothing by itself.
 * @param start as stored; undefined: nothing was counted yet
 * @param startOf first day of the present period by reset day
 */
export function advancePeriod(
  start: string | undefined,
  resetDay: number,
  startOf: (resetDay: number) => string,
): Advance {
  if (start === undefined) return { start: startOf(resetDay), reset: true }
  const [, , countedDay] = parseDate(start)
  const present = startOf(countedDay)
  if (present > start) return { start: startOf(resetDay), reset: true }
  return { start: present === start ? startOf(resetDay) : start, reset: false }
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
