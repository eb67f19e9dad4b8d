import { invalidField } from './errors.js'

/*
 * Times of the API: `YYYY-MM-DD HH:MM:SS` in one configured IANA zone. Inside the programs times are ms since 1970,
 * with 0 for never.
 */

const dayMs = 86_400_000
/** Keeps years at four digits in every zone. */
const lastSecondMs = Date.UTC(9999, 11, 31, 23, 59, 59)
const latestMs = lastSecondMs + dayMs
const localPattern = /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2}))?)?$/
/** 1973 to 2286: a shorter number is probably a mistake, a longer one a date without separators. */
const unixSecondsPattern = /^\d{9,10}$/
/** Values of databases and billing systems for no date. */
const neverPattern = /^(0|0000-00-00([Tt ]00:00(:00)?)?)?$/
const rfc3339Pattern =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/

export interface TimeFormat {
  /** IANA name. */
  readonly zone: string
  /** `YYYY-MM-DD HH:MM:SS`; "" for 0. Times out of range are clamped, see `clampTime`. */
  format(ms: number): string
  /**
   * Reads the zone's local form (optional seconds, `T` or blank), RFC 3339, a bare date (its last second), or Unix
   * seconds. A local time skipped by a clock change gets the offset before the change; of a repeated one the first
   * instant is taken.
   * @returns ms since 1970; `undefined` for another form or a nonexistent time
   */
  parse(text: string): number | undefined
  /**
   * Like `parse`, for an input field; "", "0" and `0000-00-00`, with or without a time of zeros, are 0 (never).
   * @throws {BerthError} `invalid_field`
   */
  parseField(field: string, text: string): number
}

/** @param zone IANA name; "" is the host's. @throws {RangeError} for an unknown zone */
export function createTimeFormat(zone: string): TimeFormat {
  const clock = new Intl.DateTimeFormat('en-US', {
    ...(zone === '' ? {} : { timeZone: zone }),
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
  const format = (ms: number): string => new Date(Math.min(wall(ms), lastSecondMs)).toISOString().slice(0, 19)
  const wall = createWallClock(clock)
  const parse = (text: string): number | undefined =>
    parseRfc3339(text) ?? parseLocal(text, wall) ?? parseUnixSeconds(text)
  return {
    zone: clock.resolvedOptions().timeZone,
    format: (ms) => (clampTime(ms) === 0 ? '' : format(clampTime(ms)).replace('T', ' ')),
    parse,
    parseField: (field, text) => (neverPattern.test(text) ? 0 : (parse(text) ?? failParse(field))),
  }
}

function parseUnixSeconds(text: string): number | undefined {
  const ms = unixSecondsPattern.test(text) ? Number(text) * 1000 : 0
  return ms >= Date.UTC(1971, 0, 1) ? ms : undefined
}

/** Clamps a foreign time: 0 (never) for a time before 1970 or NaN, at most the end of the year 9999 in every zone. */
export function clampTime(ms: number): number {
  return Math.min(Math.max(ms || 0, 0), latestMs)
}

function failParse(field: string): never {
  throw invalidField(
    field,
    `${field}: must be a time, for example "2030-12-31 23:59:59", "2030-12-31" (its end), RFC 3339 or Unix seconds; empty: never`,
  )
}

const quarterMs = 900_000
/** Most quarters of an hour whose offset is cached; a list contains times of years. */
const maxQuarters = 100_000

/**
 * Makes a function that returns what the zone's clocks show at `ms`, as if that were UTC. A query of the zone's rules
 * takes microseconds, so the offset of each quarter of an hour without a clock change is cached.
 */
function createWallClock(clock: Intl.DateTimeFormat): (ms: number) => number {
  /** Offset by quarter since 1970; NaN if the clocks change within it. Whole seconds, as the clocks show. */
  const offsets = new Map<number, number>()
  const readOffset = (quarter: number): number => {
    const [begin, end] = [quarter * quarterMs, (quarter + 1) * quarterMs]
    const offset = readWallClock(clock, begin) - begin
    if (offsets.size >= maxQuarters) offsets.clear()
    const kept = readWallClock(clock, end) - end === offset ? offset : NaN
    offsets.set(quarter, kept)
    return kept
  }
  return (ms) => {
    const quarter = Math.floor(ms / quarterMs)
    const offset = offsets.get(quarter) ?? readOffset(quarter)
    return Number.isNaN(offset) ? readWallClock(clock, ms) : Math.floor(ms / 1000) * 1000 + offset
  }
}

/** The time that the zone's clocks show at `ms`, as if that were UTC. */
function readWallClock(clock: Intl.DateTimeFormat, ms: number): number {
  const field = new Map(clock.formatToParts(ms).map((part) => [part.type, Number(part.value)]))
  const get = (type: Intl.DateTimeFormatPartTypes): number => field.get(type) ?? 0
  return Date.UTC(get('year'), get('month') - 1, get('day'), get('hour'), get('minute'), get('second'))
}

function parseLocal(text: string, wall: (ms: number) => number): number | undefined {
  const [, year, month, day, hour, minute, second = '00'] = localPattern.exec(text) ?? []
  if (hour !== undefined) {
    const local = realTime([year, month, day, hour, minute, second])
    return local === undefined ? undefined : instantOf(local, wall)
  }
  const midnight = realTime([year, month, day, '0', '0', '0'])
  return midnight === undefined ? undefined : instantOf(midnight + dayMs, wall) - 1000
}

/** The first instant at which the zone's clocks show `local`; in a gap, by the offset before it. */
function instantOf(local: number, wall: (ms: number) => number): number {
  const offsetAt = (ms: number): number => wall(ms) - ms
  const before = local - offsetAt(local - dayMs)
  const after = local - offsetAt(local + dayMs)
  const exact = [before, after].filter((ms) => wall(ms) === local)
  return exact.length > 0 ? Math.min(...exact) : before
}

function parseRfc3339(text: string): number | undefined {
  const match = rfc3339Pattern.exec(text)
  if (!match) return undefined
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHour = '0', offsetMinute = '0'] = match
  const local = realTime([year, month, day, hour, minute, second])
  if (local === undefined || Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined
  const offsetMs = (Number(offsetHour) * 60 + Number(offsetMinute)) * 60_000
  const fractionMs = Number(fraction.padEnd(3, '0').slice(0, 3))
  return local + fractionMs - (sign === '-' ? -offsetMs : offsetMs)
}

/** As UTC; `undefined` for a nonexistent time (31 April, 24:00), and before 1971, where 0 could be meant. */
function realTime(parts: (string | undefined)[]): number | undefined {
  const [year, month, day, hour, minute, second] = parts.map(Number) as Parts
  const ms = Date.UTC(year, month - 1, day, hour, minute, second)
  if (Number.isNaN(ms) || year < 1971) return undefined
  const iso = new Date(ms).toISOString()
  const shown = [iso.slice(0, 4), iso.slice(5, 7), iso.slice(8, 10), iso.slice(11, 13), iso.slice(14, 16)]
  return second < 60 && shown.every((part, i) => Number(part) === Number(parts[i])) ? ms : undefined
}

type Parts = [number, number, number, number, number, number]
