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
  #isRunning = false
  #isClosed = false

  /** @param work must not fail */
  constructor(
    private readonly work: () => void | Promise<void>,
    private readonly options: ThrottleOptions,
  ) {}

  request(): void {
    if (this.#isClosed) return
    this.#isRequested = true
    if (this.#timer !== undefined || this.#isRunning) return
    if (this.options.leading) void this.#run()
    else this.hold()
  }

  /** Begins an interval: nothing runs before it has ended. */
  hold(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isRequested && !this.#isRunning) void this.#run()
    }, this.options.intervalMs).unref()
  }

  /** Drops a pending request. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isRequested = false
  }

  /** Drops a pending request and ignores further ones. */
  close(): void {
    this.#isClosed = true
    this.cancel()
  }

  async #run(): Promise<void> {
    this.#isRequested = false
    this.#isRunning = true
    if (this.options.leading) this.hold()
    try {
      await this.work()
    } finally {
      this.#isRunning = false
      if (this.#isRequested) this.request()
    }
  }
}
