/** Converts times of the API, which have the form `YYYY-MM-DD HH:MM:SS` in one time zone. */
export interface ZonedTime {
  /** Returns ms since 1970. @returns undefined for any other text */
  readonly parse: (text: string) => number | undefined
  /** @param ms time since 1970 */
  readonly format: (ms: number) => string
}

const pattern = /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d)(?::(\d\d))?$/

/** @param zone IANA name @throws {RangeError} if the browser does not know the zone */
export function createZonedTime(zone: string): ZonedTime {
  // The locale `sv` writes dates in the form of the API.
  const clock = new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' })
  const format = (ms: number): string => clock.format(ms)
  /** Returns by how many ms the local time of the zone is ahead of UTC at a given time. */
  const aheadAt = (ms: number): number => (asUtc(format(ms)) ?? ms) - Math.floor(ms / 1000) * 1000
  return {
    format,
    parse: (text) => {
      const wall = asUtc(text)
      if (wall === undefined) return undefined
      const guess = wall - aheadAt(wall)
      // If summer time begins or ends near this time, `guess` can be wrong. The offset of the zone at `guess` is right.
      return wall - aheadAt(guess)
    },
  }
}

function asUtc(text: string): number | undefined {
  const found = pattern.exec(text)
  if (!found) return undefined
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found
    .slice(1)
    .map((part) => Number(part || 0))
  return Date.UTC(year, month - 1, day, hour, minute, second)
}

const units = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const
/** Maximum distance in days of a time that is described relative to now. More distant times are shown as dates. */
const mostDays = 7

/**
 * Describes a time relative to now, such as "3 minutes ago".
 * @param language language of the text, such as `en`
 * @returns undefined if the time is further away than a week
 */
export function relativeTime(ms: number, nowMs: number, language: string): string | undefined {
  const seconds = Math.round((ms - nowMs) / 1000)
  if (Math.abs(seconds) > mostDays * 86_400) return undefined
  const words = wordsOf(language)
  const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 0]
  // A text with seconds would change too often.
  return length === 0 ? words.format(0, 'second') : words.format(Math.trunc(seconds / length), unit)
}

/** Formatters are cached, because creating one costs more than formatting the times of a page. */
const formatters = new Map<string, Intl.RelativeTimeFormat>()

function wordsOf(language: string): Intl.RelativeTimeFormat {
  const known = formatters.get(language) ?? new Intl.RelativeTimeFormat(language, { numeric: 'auto' })
  formatters.set(language, known)
  return known
}
