import type { Logger } from 'pino'
import { perMinute, perSecond, RateLimit, rateLimited } from '../../shared/rate-limit.js'

export interface RequestLimit {
  /** Average rate, and burst after a pause; 0: no limit. */
  readonly perSecond: number
  /** Requests in progress at the same time; 0: no limit. */
  readonly atOnce: number
}

/** Content of an answer's RateLimit headers (draft-ietf-httpapi-ratelimit-headers-06). */
export interface RateState {
  readonly limit: number
  readonly remaining: number
  /** Seconds until all of the limit is available again. */
  readonly resetSeconds: number
}

/** Counted properties of a request in progress. */
interface CountedRequest {
  rate: RateState | undefined
  /** Called once its answer has been sent, or its connection closed. */
  readonly onGone: (() => void)[]
}

/** Limits requests of every caller, or every source address: per second, and at once. */
export class RequestLimits {
  readonly #rate: RateLimit | undefined
  readonly #running = new Map<string, number>()
  readonly #lines = new RateLimit(perMinute(1))

  /** @param whose the caller in messages: `this key` */
  constructor(
    private readonly limit: RequestLimit,
    private readonly whose: string,
    private readonly log: Logger,
  ) {
    this.#rate = limit.perSecond > 0 ? new RateLimit(perSecond(limit.perSecond)) : undefined
  }

  /**
   * Counts a request, which is in progress until its answer has been sent.
   * @throws {BerthError} `rate_limited`; then the exchange has the caller's rate, too
   */
  enter(caller: string, exchange: CountedRequest): void {
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

  /** `undefined` without a rate limit. */
  state(caller: string): RateState | undefined {
    if (this.#rate === undefined) return undefined
    const { attempts, fullInMs } = this.#rate.left(caller)
    return { limit: this.limit.perSecond, remaining: attempts, resetSeconds: Math.ceil(fullInMs / 1000) }
  }

  #refuse(caller: string, which: 'at once' | 'per second', waitMs: number) {
    const most = which === 'at once' ? this.limit.atOnce : this.limit.perSecond
    // One line per caller and minute, so that a flood of requests does not flood the log.
    if (this.#lines.take(caller) === 0) this.log.warn({ caller, most }, `more requests ${which} than allowed`)
    return rateLimited(`more than ${most} requests ${which} from ${this.whose}: try again later`, waitMs)
  }
}
