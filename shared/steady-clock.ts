/*
 * The wall clock can be wrong for a minute: a bad time server, a guest of a hypervisor that was restored, a typing error.
 * The monotonic clock cannot jump, but does not know the date. Together they tell a jump from time that has passed.
 */

/** Slower changes are time synchronisation, which is followed at once. */
const toleranceMs = 120_000
/** A jump counts once the new time has been stable for so long. */
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

/** CLOCK_MONOTONIC, which counts from the machine's boot and so is the same in all processes. */
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

  /** The time, ms since 1970: the wall clock's, but a jump of it counts only once it has been stable for 5 minutes. */
  readonly now = (): number => {
    const monotonicMs = this.sources.monotonic()
    const wallMs = this.sources.wall()
    this.#follow(wallMs - monotonicMs, monotonicMs)
    return this.#jump ? monotonicMs + this.#offsetMs : wallMs
  }

  /** The earlier of wall clock and steady time: what has ended by it, has ended by both. */
  earliest(): number {
    return Math.min(this.now(), this.sources.wall())
  }

  /** The later of wall clock and steady time: what has not begun by it, has not by either. */
  latest(): number {
    return Math.max(this.now(), this.sources.wall())
  }

  /** By how much the wall clock differs from the steady time, in ms; 0: not at all. */
  jumpMs(): number {
    const nowMs = this.now()
    return this.#jump ? this.sources.wall() - nowMs : 0
  }

  /** Whether the wall clock has not jumped for 5 minutes, and was watched for so long. */
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

  /** Has the clock count as watched already, where nothing is known that it could contradict. */
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
