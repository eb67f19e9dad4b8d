import type { Logger } from 'pino'
import { perMinute, perSecond, RateLimit, rateLimited } from '../../shared/rate-limit.js'

export interface RequestLimit {
  /** Average number of requests per second, and maximum number of requests after a pause (`burst`). 0: no limit. */
  readonly perSecond: number
  /** Number of requests that may be in progress at the same time. 0: no limit. */
  readonly atOnce: number
}

/** Content of an answer's RateLimit headers (draft-ietf-httpapi-ratelimit-headers-06). */
export interface RateState {
  readonly limit: number
  readonly remaining: number
  /** Seconds until the complete limit is available again. */
  readonly resetSeconds: number
}

interface CountedRequest {
  rate: RateState | undefined
  /** Called when the answer has been sent or the connection was closed. */
  readonly onGone: (() => void)[]
}

/** Limits the requests per second, and the requests in progress, of each caller or each source address. */
export class RequestLimits {
  readonly #rate: RateLimit | undefined
  readonly #running = new Map<string, number>()
  readonly #lines = new RateLimit(perMinute(1))

  /** @param whose name for the caller in error messages, for example `this key` */
  constructor(
    private readonly limit: RequestLimit,
    private readonly whose: string,
    private readonly log: Logger,
  ) {
    this.#rate = limit.perSecond > 0 ? new RateLimit(perSecond(limit.perSecond)) : undefined
  }

  /**
   * Counts a request as in progress until its answer has been sent.
   * @throws {BerthError} `rate_limited`, after setting `exchange.rate`
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

  /** Returns the state of the caller's limit. `undefined`: the requests per second are not limited. */
  state(caller: string): RateState | undefined {
    if (this.#rate === undefined) return undefined
    const { attempts, fullInMs } = this.#rate.left(caller)
    return { limit: this.limit.perSecond, remaining: attempts, resetSeconds: Math.ceil(fullInMs / 1000) }
  }

  #refuse(caller: string, which: 'at once' | 'per second', waitMs: number) {
    const most = which === 'at once' ? this.limit.atOnce : this.limit.perSecond
    // Each caller causes at most one log line per minute, so that a flood of requests does not flood the log.
    if (this.#lines.take(caller) === 0)
      this.log.warn({ caller, most }, `a caller sent more requests ${which} than allowed`)
    return rateLimited(`more than ${most} requests ${which} from ${this.whose}: try again later`, waitMs)
  }
}
