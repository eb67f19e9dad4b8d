import { createZonedTime, type ZonedTime } from './zoned-time.ts'

/** A difference of clocks below this value is ignored, because it may be the time that the answer took. */
const minSkewMs = 30_000
/** Time in ms after which relative times are written again. */
const tickMs = 30_000

/** The clock and the time zone of the gateway. */
class ServerTime implements ZonedTime {
  /** The present time of the gateway in ms, for relative times. It changes twice a minute. */
  nowMs = $state(Date.now())
  #zone = $state.raw<ZonedTime>(createZonedTime('UTC'))
  #skewMs = 0

  constructor() {
    setInterval(() => (this.nowMs = this.readMs()), tickMs)
  }

  /**
   * @param zone IANA name of the zone in which the gateway shows times
   * @param date header `Date` of an answer that has just arrived
   */
  set(zone: string, date: string | null): void {
    try {
      this.#zone = createZonedTime(zone)
    } catch {
      return // The browser does not know the zone, so all times stay in the previous one.
    }
    const skewMs = Date.parse(date ?? '') - Date.now()
    this.#skewMs = Math.abs(skewMs) > minSkewMs ? skewMs : 0
    this.nowMs = this.readMs()
  }

  /** Returns the present time of the gateway in ms. Unlike `nowMs`, it is exact. */
  readMs = (): number => Date.now() + this.#skewMs
  parse = (text: string): number | undefined => this.#zone.parse(text)
  format = (ms: number): string => this.#zone.format(ms)
}

export const serverTime = new ServerTime()
