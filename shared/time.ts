import { invalidField } from './errors.js'

/*
 * Times of the API have the form `YYYY-MM-DD HH:MM:SS` in one configured IANA zone. Inside the programs, times are ms
 * since 1970. 0 means "never".
 */

const dayMs = 86_400_000
/** Latest time that texts show, because later years would not have four digits. */
const lastSecondMs = Date.UTC(9999, 11, 31, 23, 59, 59)
const latestMs = lastSecondMs + dayMs
const localPattern = /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2}))?)?$/
/** Unix seconds from 1973 to 2286. A shorter number is probably a mistake, a longer one a date without separators. */
const unixSecondsPattern = /^\d{9,10}$/
/** Values that databases and billing systems store instead of a missing date. */
const neverPattern = /^(0|0000-00-00([Tt ]00:00(:00)?)?)?$/
const rfc3339Pattern =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/

export interface TimeFormat {
  /** IANA name of the zone. */
  readonly zone: string
  /** Returns `YYYY-MM-DD HH:MM:SS`, and "" for 0. Times out of range are clamped (see `clampTime`). */
  format(ms: number): string
  /**
   * Parses the zone's local form, RFC 3339, a date or Unix seconds. In the local form, seconds are optional, and `T`
   * can replace the blank. A date without a time means the last second of that day. A local time that a clock change
   * skips gets the offset before the change. A local time that occurs twice is read as the first instant.
   * @returns ms since 1970; `undefined` for any other form or a nonexistent time
   */
  parse(text: string): number | undefined
  /**
   * Like `parse`, but for an input field. "", "0", `0000-00-00` and `0000-00-00 00:00:00` become 0 (never).
   * @throws {BerthError} `invalid_field`
   */
  parseField(field: string, text: string): number
}

/** @param zone IANA name; "" for the host's zone. @throws {RangeError} for an unknown zone */
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

/** Clamps any time to the range that can be shown. NaN and times before 1970 become 0 (never). */
export function clampTime(ms: number): number {
  return Math.min(Math.max(ms || 0, 0), latestMs)
}

function failParse(field: string): never {
  throw invalidField(
    field,
    `${field}: must be a time, for example "2030-12-31 23:59:59", a date (which means the end of that day), RFC 3339 or Unix seconds. Empty means never`,
  )
}

const quarterMs = 900_000
/** Maximum number of quarter hours whose offset is cached. A list in the API can contain times of several years. */
const maxQuarters = 100_000

/**
 * Makes a function that returns the local time of the zone at `ms`, as if it were UTC. The computation by the zone's
 * rules takes microseconds. Offsets are therefore cached, except for quarter hours with a clock change.
 */
function createWallClock(clock: Intl.DateTimeFormat): (ms: number) => number {
  /** UTC offset in seconds, by quarter hour (counted since 1970). NaN: the clocks change within this quarter hour. */
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

/** Returns the time that the zone's clocks show at `ms`, as if it were UTC. */
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

/** Returns the first instant at which clocks show `local`. If they skip it, uses the offset from before the skip. */
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

/**
 * Converts the parts of a time in UTC to ms. Returns undefined for a nonexistent time (31 April, 24:00). Also returns
 * undefined for a time before 1971, because such a time usually stands for "no time".
 */
function realTime(parts: (string | undefined)[]): number | undefined {
  const [year, month, day, hour, minute, second] = parts.map(Number) as Parts
  const ms = Date.UTC(year, month - 1, day, hour, minute, second)
  if (Number.isNaN(ms) || year < 1971) return undefined
  const iso = new Date(ms).toISOString()
  const shown = [iso.slice(0, 4), iso.slice(5, 7), iso.slice(8, 10), iso.slice(11, 13), iso.slice(14, 16)]
  return second < 60 && shown.every((part, i) => Number(part) === Number(parts[i])) ? ms : undefined
}

type Parts = [number, number, number, number, number, number]
