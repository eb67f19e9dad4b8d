const everyMs = 500
/** Shorter than the ping timeout of agents: after a shorter pause all connections are still alive. */
const longestMs = 4000

/** Detects pauses of this process, for example while its machine was suspended or copied. */
export class PauseWatch {
  #checkedMs = performance.now()
  #pausedMs = 0
  readonly #timer = setInterval(() => this.check(), everyMs).unref()

  /** @param onPause called once after each pause, by the first check */
  constructor(private readonly onPause: () => void) {}

  /** End of the last pause. Cheap; call it before work that depends on it, since timers may fire late. */
  check(): number {
    const sinceMs = performance.now() - this.#checkedMs
    this.#checkedMs += sinceMs
    if (sinceMs > longestMs) {
      this.#pausedMs = this.#checkedMs
      this.onPause()
    }
    return this.#pausedMs
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
