/** A step of the wall clock by more than this is a jump; time servers correct less by slewing. */
const jumpMs = 10_000
/** After a jump, or the agent's start, the clock is trusted once it has run on for this long. */
const steadyMs = 120_000

/**
 * Tells whether a time has passed by the wall clock, so that a clock that is wrong for a moment decides nothing: a time
 * that passes while the clock runs evenly has passed at once, one that a jump skipped only once the clock is steady.
 */
export class SteadyClock {
  #jump: { readonly wallMs: number; readonly monotonicMs: number }
  /** Wall clock minus monotonic clock at the last look. */
  #offsetMs: number

  /** @param now ms since 1970. @param monotonic ms, never set */
  constructor(
    private readonly now: () => number,
    private readonly monotonic: () => number = () => performance.now(),
  ) {
    this.#jump = { wallMs: now(), monotonicMs: monotonic() }
    this.#offsetMs = this.#jump.wallMs - this.#jump.monotonicMs
  }

  /** Notices jumps; call it every few seconds. */
  look(): void {
    const [wallMs, monotonicMs] = [this.now(), this.monotonic()]
    const offsetMs = wallMs - monotonicMs
    if (Math.abs(offsetMs - this.#offsetMs) > jumpMs) this.#jump = { wallMs, monotonicMs }
    this.#offsetMs = offsetMs
  }

  isPast(timeMs: number): boolean {
    this.look()
    const isSteady = this.monotonic() - this.#jump.monotonicMs >= steadyMs
    return this.now() >= timeMs && (isSteady || timeMs > this.#jump.wallMs)
  }
}
