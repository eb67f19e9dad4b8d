import type { Logger } from 'pino'
import { perMinute, perSecond, RateLimit, rateLimited } from '../rate-limit.js'

export interface RequestLimit {
  /** Average, and as many at once after a pause; 0: no limit. */
  readonly perSecond: number
  /** In progress at the same time; 0: no limit. */
  readonly atOnce: number
}

/** What the RateLimit headers of an answer tell (draft-ietf-httpapi-ratelimit-headers-06). */
export interface RateState {
  readonly limit: number
  readonly remaining: number
  /** Until everything is there again. */
  readonly resetSeconds: number
}

/** What is counted of a request on its way. */
interface Counted {
  rate: RateState | undefined
  /** Called once its answer has gone, or its connection. */
  readonly onGone: (() => void)[]
}

/** Requests of every caller, or of every source address: how many a second, and how many at once. */
export class RequestLimits {
  readonly #rate: RateLimit | undefined
  readonly #running = new Map<string, number>()
  readonly #lines = new RateLimit(perMinute(1))

  /** @param whose for people: `this key` */
  constructor(
    private readonly limit: RequestLimit,
    private readonly whose: string,
    private readonly log: Logger,
  ) {
    this.#rate = limit.perSecond > 0 ? new RateLimit(perSecond(limit.perSecond)) : undefined
  }

  /**
   * Counts a request, which is in progress until its answer has gone.
   * @throws {BerthError} `rate_limited`; what the caller has left is in the exchange then
   */
  enter(caller: string, exchange: Counted): void {
    try {
      this.#count(caller)
    } catch (error) {
      const state = this.state(caller)
      exchange.rate = state && { ...state, remaining: 0 }
      throw error
    }
    exchange.onGone.push(() => this.#leave(caller))
  }

  #count(caller: string): void {
    const running = this.#running.get(caller) ?? 0
    if (this.limit.atOnce > 0 && running >= this.limit.atOnce) throw this.#refuse(caller, 'at once', 1000)
    const waitMs = this.#rate?.take(caller) ?? 0
    if (waitMs > 0) throw this.#refuse(caller, 'per second', waitMs)
    this.#running.set(caller, running + 1)
  }

  #leave(caller: string): void {
    const running = this.#running.get(caller) ?? 0
    if (running > 1) this.#running.set(caller, running - 1)
    else this.#running.delete(caller)
  }

  /** `undefined` where there is no rate to tell of. */
  state(caller: string): RateState | undefined {
    if (this.#rate === undefined) return undefined
    const { attempts, fullInMs } = this.#rate.left(caller)
    return { limit: this.limit.perSecond, remaining: attempts, resetSeconds: Math.ceil(fullInMs / 1000) }
  }

  #refuse(caller: string, which: 'at once' | 'per second', waitMs: number) {
    const most = which === 'at once' ? this.limit.atOnce : this.limit.perSecond
    // A flood of requests must not become a flood of lines.
    if (this.#lines.take(caller) === 0) this.log.warn({ caller, most }, `more requests ${which} than allowed`)
    return rateLimited(`more than ${most} requests ${which} from ${this.whose}; try again later`, waitMs)
  }
}
