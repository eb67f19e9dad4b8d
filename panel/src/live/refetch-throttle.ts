/** Minimum time in ms from the start of one call of `run` to the start of the next. */
const gapMs = 500

/** Runs a function on request: immediately if possible, but never twice simultaneously, and at most twice a second. */
export class RefetchThrottle {
  #busy = false
  #wanted = false
  #begunMs = -Infinity
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly run: () => Promise<void> | void) {}

  ask(): void {
    this.#wanted = true
    if (this.#busy || this.#timer !== undefined) return
    const waitMs = this.#begunMs + gapMs - performance.now()
    if (waitMs <= 0) this.#begin()
    else this.#timer = setTimeout(() => this.#begin(), waitMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#wanted = false
  }

  #begin(): void {
    this.#timer = undefined
    ;[this.#busy, this.#wanted, this.#begunMs] = [true, false, performance.now()]
    void Promise.resolve(this.run())
      .catch(() => undefined)
      .finally(() => {
        this.#busy = false
        if (this.#wanted) this.ask()
      })
  }
}
