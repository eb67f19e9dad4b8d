export interface ThrottleOptions {
  readonly intervalMs: number
  /** Runs at the beginning of an interval too. Otherwise the first request waits for an interval, to gather others. */
  readonly leading?: boolean
}

/**
 * Runs its work at most once per interval, however often it is requested. The last request is always served. Runs
 * never overlap. Its timers do not keep the process alive.
 */
export class Throttle {
  #timer: NodeJS.Timeout | undefined
  #isRequested = false
  #running: Promise<void> | undefined
  #isClosed = false

  /** @param work must not fail */
  constructor(
    private readonly work: () => void | Promise<void>,
    private readonly options: ThrottleOptions,
  ) {}

  request(): void {
    if (this.#isClosed) return
    this.#isRequested = true
    if (this.#timer !== undefined || this.#running) return
    if (this.options.leading) this.#begin()
    else this.hold()
  }

  /** Begins an interval: nothing runs before it has ended. */
  hold(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isRequested && !this.#running) this.#begin()
    }, this.options.intervalMs).unref()
  }

  /** Drops a pending request and ignores further ones. */
  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isRequested = false
    this.#isClosed = true
  }

  /** Resolves after the run in progress. */
  async settled(): Promise<void> {
    await this.#running
  }

  #begin(): void {
    this.#isRequested = false
    if (this.options.leading) this.hold()
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    try {
      await this.work()
    } finally {
      this.#running = undefined
      if (this.#isRequested) this.request()
    }
  }
}
