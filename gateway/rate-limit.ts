import { BerthError } from '../shared/errors.js'

/** Callers remembered at once; beyond it those seen first are forgotten. */
const maxCallers = 50_000

export interface Rate {
  /** Attempts that may come at once, before any waiting. */
  readonly burst: number
  /** How long one of them takes to come back. */
  readonly intervalMs: number
}

/** Burst and average of so many a minute. */
export function perMinute(count: number): Rate {
  return { burst: count, intervalMs: 60_000 / count }
}

/** Burst and average of so many a second. */
export function perSecond(count: number): Rate {
  return { burst: count, intervalMs: 1000 / count }
}

/**
 * Attempts per caller, by the generic cell rate algorithm (ITU-T I.371): one number is kept for each, the time
 * at which it has all its attempts back. Nothing waits, and nothing has to be cleaned up by a timer.
 */
export class RateLimit {
  readonly #fullAtMs = new Map<string, number>()

  constructor(readonly rate: Rate) {}

  /** Counts an attempt. @returns ms until the next one is allowed, where this one is not; else 0 */
  take(caller: string, nowMs = performance.now()): number {
    const { burst, intervalMs } = this.rate
    const fullAtMs = Math.max(this.#fullAtMs.get(caller) ?? 0, nowMs) + intervalMs
    const waitMs = fullAtMs - nowMs - burst * intervalMs
    // Sums of fractions of a millisecond are never exact.
    if (waitMs > 1e-6) return waitMs
    this.#fullAtMs.set(caller, fullAtMs)
    if (this.#fullAtMs.size > maxCallers) this.#forget(nowMs)
    return 0
  }

  /** An attempt that does not count after all. */
  giveBack(caller: string): void {
    const fullAtMs = this.#fullAtMs.get(caller)
    if (fullAtMs !== undefined) this.#fullAtMs.set(caller, fullAtMs - this.rate.intervalMs)
  }

  /** What a caller has left, and ms until it has everything again. */
  left(caller: string, nowMs = performance.now()): { attempts: number; fullInMs: number } {
    const { burst, intervalMs } = this.rate
    const fullInMs = Math.max(0, (this.#fullAtMs.get(caller) ?? 0) - nowMs)
    return { attempts: Math.max(0, Math.floor(burst - fullInMs / intervalMs + 1e-6)), fullInMs }
  }

  /** First who has everything back and so needs no memory, then a quarter of the rest. */
  #forget(nowMs: number): void {
    for (const [caller, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(caller)
    for (const caller of this.#fullAtMs.keys()) {
      if (this.#fullAtMs.size <= maxCallers * 0.75) break
      this.#fullAtMs.delete(caller)
    }
  }
}

/** @param waitMs until another attempt is worth it */
export function rateLimited(message: string, waitMs: number): BerthError {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000))
  return new BerthError('exhausted', 'rate_limited', message, { retryAfterSeconds })
}
