const everyMs = 500
/** Less than an agent waits for the answer to a ping: after a shorter pause, connections are as they were. */
const longestMs = 4000

/** Notices that this process stood still, as while its machine was suspended or copied. */
export class PauseWatch {
  #checkedMs = performance.now()
  #pausedMs = 0
  readonly #timer = setInterval(() => this.check(), everyMs).unref()

  /** @param onPause called once after each pause, by the first check */
  constructor(private readonly onPause: () => void) {}

  /** When the last pause ended. Cheap; call it before work that depends on it, as timers may fire late. */
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
