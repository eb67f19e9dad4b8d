import { BerthError } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import { doubtClock } from '../../pki/plan-clock.js'
import type { Store } from '../../store/store.js'

export interface ClockOpinions {
  /** Present time of the host that receives the certificate, in ms since 1970. */
  readonly peerMs?: number
  /** Time when the last certificate of the host was issued, in ms since 1970. */
  readonly lastIssuedMs?: number
}

/** Prevents the gateway from issuing certificates while its clock contradicts other clocks. */
export class ClockCheck {
  constructor(private readonly store: Store) {}

  /**
   * @throws {BerthError} `store_unavailable`; `clock_in_doubt` if the gateway's clock differs much from another clock
   */
  async check(opinions: ClockOpinions): Promise<void> {
    const storeMs = await this.#storeTime()
    const doubt = doubtClock({ ...opinions, storeMs, nowMs: Date.now(), jumpMs: steadyClock.jumpMs() })
    if (doubt !== '')
      throw new BerthError(
        'unavailable',
        'clock_in_doubt',
        `no certificate is issued until the wrong clock is corrected: ${doubt}`,
      )
  }

  /** Reads the store's clock. Source: https://redis.io/docs/latest/commands/time/ (seconds and microseconds) */
  async #storeTime(): Promise<number> {
    const answer = await this.store.run('read the clock of the store', (client) => client.time())
    const [seconds, microseconds] = answer as unknown as [string, string]
    return Number(seconds) * 1000 + Number(microseconds) / 1000
  }
}
