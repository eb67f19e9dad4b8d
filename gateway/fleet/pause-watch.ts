const everyMs = 500
/** Longest pause in ms that is ignored. Connections survive it, because agents wait longer for the answer to a ping. */
const longestMs = 4000

/** Detects pauses of this process, for example if its virtual machine was suspended. */
export class PauseWatch {
  #checkedMs = performance.now()
  #pausedMs = 0
  readonly #timer = setInterval(() => this.check(), everyMs).unref()

  /** @param onPause called by the first `check` after each pause of this process */
  constructor(private readonly onPause: () => void) {}

  /** Detects whether this process was just paused. @returns monotonic time in ms at which its last pause ended */
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
