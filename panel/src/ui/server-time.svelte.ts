import { createZonedTime, type ZonedTime } from './zoned-time.ts'

/** A smaller difference of clocks is ignored, because it can be the time that the answer took. */
const minSkewMs = 30_000
/** Interval in ms at which relative times are updated. */
const tickMs = 30_000

const browserZone = new Intl.DateTimeFormat().resolvedOptions().timeZone

/** The clock and the time zone of the gateway, and the time zone of the times that the panel shows. */
class ServerTime implements ZonedTime {
  /** The present time of the gateway in ms, for relative times. It changes every 30 seconds. */
  nowMs = $state(Date.now())
  /** IANA name of the zone of the gateway. */
  zone = $state('UTC')
  /** IANA name of the zone in which the panel shows times. */
  shownZone = $state(browserZone)
  readonly #zone = $derived(createZonedTime(this.zone))
  readonly #shown = $derived(createZonedTime(this.shownZone))
  #skewMs = 0

  constructor() {
    setInterval(() => (this.nowMs = this.readMs()), tickMs)
  }

  /**
   * @param zone IANA name of the zone in which the gateway shows times
   * @param date header `Date` of an answer that has just arrived
   */
  set(zone: string, date: string | null): void {
    // If the browser does not know the zone, nothing is changed, and times stay in the previous zone.
    if (!isKnownZone(zone)) return
    this.zone = zone
    const skewMs = Date.parse(date ?? '') - Date.now()
    this.#skewMs = Math.abs(skewMs) > minSkewMs ? skewMs : 0
    this.nowMs = this.readMs()
  }

  /** @param zone IANA name of the zone that the user has chosen; "": the zone of the browser */
  showIn(zone: string): void {
    this.shownZone = isKnownZone(zone) ? zone : browserZone
  }

  /** Converts a time of the API to the zone of the user. Any other text stays unchanged. */
  shown = (text: string): string => {
    const ms = this.parse(text)
    return ms === undefined ? text : this.#shown.format(ms)
  }

  /** Converts a time of the API to the value of a field of the type `datetime-local`. */
  toInput = (text: string): string => this.shown(text).slice(0, 16).replace(' ', 'T')

  /** Converts the value of a field of the type `datetime-local` to a time of the API. @returns "" without a time */
  fromInput(value: string): string {
    const ms = this.#shown.parse(value.replace('T', ' '))
    return ms === undefined ? '' : this.format(ms)
  }

  /** Returns the present time of the gateway in ms. Unlike `nowMs`, it is exact. */
  readMs = (): number => Date.now() + this.#skewMs
  parse = (text: string): number | undefined => this.#zone.parse(text)
  format = (ms: number): string => this.#zone.format(ms)
}

function isKnownZone(zone: string): boolean {
  try {
    return zone !== '' && createZonedTime(zone) !== undefined
  } catch {
    return false
  }
}

export const serverTime = new ServerTime()
