/*
 * The wall clock can be wrong for a minute: a bad time server, a restored guest of a hypervisor, a typing error. The
 * monotonic clock cannot jump, but does not know the date. Together they distinguish a jump from elapsed time.
 */

/** Smaller changes are time synchronisation and are accepted at once. */
const toleranceMs = 120_000
/** A jump is accepted once the new time has been stable for this long. */
export const settleMs = 300_000

export interface ClockSources {
  /** ms since 1970. */
  readonly wall: () => number
  /** ms since any moment; never jumps. */
  readonly monotonic: () => number
}

/** Identifies a reading of both clocks, to recognise a jump that happened while no process watched. */
export interface ClockMark {
  readonly bootId: string
  readonly offsetMs: number
}

/** CLOCK_MONOTONIC counts from the machine's boot, and is therefore equal in all processes. */
const sinceBootMs = (): number => Number(process.hrtime.bigint() / 1000n) / 1000

export class SteadyClock {
  #offsetMs: number
  #jump: { offsetMs: number; atMs: number } | undefined
  /** Monotonic time from which on the clock has been watched. */
  #watchedFromMs: number

  constructor(private readonly sources: ClockSources = { wall: Date.now, monotonic: sinceBootMs }) {
    this.#watchedFromMs = sources.monotonic()
    this.#offsetMs = sources.wall() - this.#watchedFromMs
  }

  /** The steady time, ms since 1970. It follows the wall clock, but accepts a jump only after 5 stable minutes. */
  readonly now = (): number => {
    const monotonicMs = this.sources.monotonic()
    const wallMs = this.sources.wall()
    this.#follow(wallMs - monotonicMs, monotonicMs)
    return this.#jump ? monotonicMs + this.#offsetMs : wallMs
  }

  /** The earlier of wall clock and steady time. Use it to decide that something has ended. */
  earliest(): number {
    return Math.min(this.now(), this.sources.wall())
  }

  /** The later of wall clock and steady time. Use it to decide that something has not begun yet. */
  latest(): number {
    return Math.max(this.now(), this.sources.wall())
  }

  /** Difference between the wall clock and the steady time in ms. */
  jumpMs(): number {
    const nowMs = this.now()
    return this.#jump ? this.sources.wall() - nowMs : 0
  }

  /** True if the wall clock has not jumped for 5 minutes, and was watched for so long. */
  isSettled(): boolean {
    this.now()
    return !this.#jump && this.sources.monotonic() - this.#watchedFromMs >= settleMs
  }

  mark(bootId: string): ClockMark {
    this.now()
    return { bootId, offsetMs: this.#offsetMs }
  }

  /** Trusts the clock from now on where an earlier process of this boot saw the same offset. */
  resume(mark: ClockMark, bootId: string): void {
    const sameOffset = Math.abs(mark.offsetMs - this.#offsetMs) <= toleranceMs
    if (mark.bootId === bootId && sameOffset) this.trust()
  }

  /** Treats the clock as settled, because no earlier record exists that it could contradict. */
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

/** The clock of this process. */
export const steadyClock = new SteadyClock()
