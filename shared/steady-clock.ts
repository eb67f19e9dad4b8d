/*
 * The wall clock can be wrong for a minute, for example because of a bad time server. The monotonic clock never jumps,
 * but does not know the date. A comparison of the two clocks distinguishes a jump from elapsed time.
 */

/** Jumps of the wall clock up to this time in ms are accepted immediately, as they count as time synchronisation. */
const toleranceMs = 120_000
/** Time in ms after which a jump is accepted, if the new time has been stable since the jump. */
export const settleMs = 300_000

export interface ClockSources {
  /** ms since 1970. */
  readonly wall: () => number
  /** Returns the time in ms since a fixed moment. This time never jumps. */
  readonly monotonic: () => number
}

/** The offset between wall clock and monotonic clock. A later process compares it with its own offset to find jumps. */
export interface ClockMark {
  readonly bootId: string
  readonly offsetMs: number
}

/** CLOCK_MONOTONIC counts from the host's boot, so it is the same in all processes. */
const sinceBootMs = (): number => Number(process.hrtime.bigint() / 1000n) / 1000

export class SteadyClock {
  #offsetMs: number
  #jump: { offsetMs: number; atMs: number } | undefined
  /** Monotonic time in ms at which the watch of the wall clock began. */
  #watchedFromMs: number

  constructor(private readonly sources: ClockSources = { wall: Date.now, monotonic: sinceBootMs }) {
    this.#watchedFromMs = sources.monotonic()
    this.#offsetMs = sources.wall() - this.#watchedFromMs
  }

  /** Returns the steady time in ms since 1970. It follows a jump of the wall clock only after 5 stable minutes. */
  readonly now = (): number => {
    const monotonicMs = this.sources.monotonic()
    const wallMs = this.sources.wall()
    this.#follow(wallMs - monotonicMs, monotonicMs)
    return this.#jump ? monotonicMs + this.#offsetMs : wallMs
  }

  /** Returns the earlier of wall clock and steady time, in ms since 1970. All times before the result have passed. */
  earliest(): number {
    return Math.min(this.now(), this.sources.wall())
  }

  /** Returns the later of wall clock and steady time, in ms since 1970. All later times are in the future. */
  latest(): number {
    return Math.max(this.now(), this.sources.wall())
  }

  /** Returns the wall clock minus the steady time in ms: negative if the clock jumped back, 0 if it did not jump. */
  jumpMs(): number {
    const nowMs = this.now()
    return this.#jump ? this.sources.wall() - nowMs : 0
  }

  /** True if the wall clock was watched for the last 5 minutes and did not jump. */
  isSettled(): boolean {
    this.now()
    return !this.#jump && this.sources.monotonic() - this.#watchedFromMs >= settleMs
  }

  mark(bootId: string): ClockMark {
    this.now()
    return { bootId, offsetMs: this.#offsetMs }
  }

  /** Treats the clock as settled if `mark` is from this boot and contains the present offset of the two clocks. */
  resume(mark: ClockMark, bootId: string): void {
    const sameOffset = Math.abs(mark.offsetMs - this.#offsetMs) <= toleranceMs
    if (mark.bootId === bootId && sameOffset) this.trust()
  }

  /** Treats the clock as settled without the wait of 5 minutes. Call it if no earlier `ClockMark` exists. */
  trust(): void {
    this.#watchedFromMs = -Infinity
  }

  #follow(offsetMs: number, monotonicMs: number): void {
    if (Math.abs(offsetMs - this.#offsetMs) <= toleranceMs) {
      this.#jump = undefined
      this.#offsetMs = offsetMs
      return
    }
    if (!this.#jump || Math.abs(offsetMs - this.#jump.offsetMs) > toleranceMs)
      this.#jump = { offsetMs, atMs: monotonicMs }
    if (monotonicMs - this.#jump.atMs < settleMs) return
    this.#offsetMs = offsetMs
    this.#jump = undefined
  }
}

export const steadyClock = new SteadyClock()
