import { BerthError } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import { doubtClock } from '../../pki/plan-clock.js'
import type { Store } from '../../store/store.js'

export interface ClockOpinions {
  /** The clock of the receiver of the certificate. */
  readonly peerMs?: number
  /** When the receiver's last certificate was issued. */
  readonly lastIssuedMs?: number
}

/** Keeps the gateway from issuing certificates while its clock contradicts others. */
export class ClockCheck {
  constructor(private readonly store: Store) {}

  /** @throws {BerthError} `clock_in_doubt`, `store_unavailable` */
  async check(opinions: ClockOpinions): Promise<void> {
    const storeMs = await this.#storeTime()
    const doubt = doubtClock({ ...opinions, storeMs, nowMs: Date.now(), jumpMs: steadyClock.jumpMs() })
    if (doubt !== '')
      throw new BerthError(
        'unavailable',
        'clock_in_doubt',
        `no certificate is issued: ${doubt}; correct the wrong clock`,
      )
  }

  /** Source: https://redis.io/docs/latest/commands/time/ (seconds and microseconds) */
  async #storeTime(): Promise<number> {
    const answer = await this.store.run('read the time', (client) => client.sendCommand(['TIME']))
    const [seconds, microseconds] = answer as unknown as [string, string]
    return Number(seconds) * 1000 + Number(microseconds) / 1000
  }
}
