import { BerthError } from './errors.js'

/** Maximum number of callers in memory. If there are more callers, the oldest entries are dropped. */
const maxCallers = 50_000

export interface Rate {
  /** After a pause, this many attempts are allowed immediately one after another. */
  readonly burst: number
  /** Time in ms in which one used attempt becomes available again. */
  readonly intervalMs: number
}

/** Makes a rate that allows bursts of `count` attempts, and on average `count` attempts per minute. */
export function perMinute(count: number): Rate {
  return { burst: count, intervalMs: 60_000 / count }
}

/** Makes a rate that allows bursts of `count` attempts, and on average `count` attempts per second. */
export function perSecond(count: number): Rate {
  return { burst: count, intervalMs: 1000 / count }
}

/**
 * Limits attempts per caller by the generic cell rate algorithm (ITU-T I.371). It stores one number per caller: the
 * time at which all attempts are available again. It needs no queue and no timer.
 */
export class RateLimit {
  readonly #fullAtMs = new Map<string, number>()

  constructor(readonly rate: Rate) {}

  /** Counts an attempt. @returns 0 if it is allowed, otherwise ms until the next attempt is allowed */
  take(caller: string, nowMs = performance.now()): number {
    const { burst, intervalMs } = this.rate
    const fullAtMs = Math.max(this.#fullAtMs.get(caller) ?? 0, nowMs) + intervalMs
    const waitMs = fullAtMs - nowMs - burst * intervalMs
    // Tolerates rounding errors of less than a microsecond.
    if (waitMs > 1e-6) return waitMs
    this.#fullAtMs.set(caller, fullAtMs)
    if (this.#fullAtMs.size > maxCallers) this.#forget(nowMs)
    return 0
  }

  /** Takes back an attempt that should not count. */
  giveBack(caller: string): void {
    const fullAtMs = this.#fullAtMs.get(caller)
    if (fullAtMs !== undefined) this.#fullAtMs.set(caller, fullAtMs - this.rate.intervalMs)
  }

  /** Returns the number of attempts that a caller has left, and the ms until all attempts are available again. */
  left(caller: string, nowMs = performance.now()): { attempts: number; fullInMs: number } {
    const { burst, intervalMs } = this.rate
    const fullInMs = Math.max(0, (this.#fullAtMs.get(caller) ?? 0) - nowMs)
    return { attempts: Math.max(0, Math.floor(burst - fullInMs / intervalMs + 1e-6)), fullInMs }
  }

  /** Forgets callers whose attempts are all available. If too many callers remain, forgets the oldest ones. */
  #forget(nowMs: number): void {
    for (const [caller, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(caller)
    for (const caller of this.#fullAtMs.keys()) {
      if (this.#fullAtMs.size <= maxCallers * 0.75) break
      this.#fullAtMs.delete(caller)
    }
  }
}

/** @param waitMs time in ms until another attempt can succeed */
export function rateLimited(message: string, waitMs: number): BerthError {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000))
  return new BerthError('exhausted', 'rate_limited', message, { retryAfterSeconds })
}
