export interface ThrottleOptions {
  readonly intervalMs: number
  /** True: a request after a pause runs the work immediately. Default: the work runs one interval after the request. */
  readonly leading?: boolean
}

/**
 * Runs its work at most once per interval, however often the work is requested. Each request is followed by a run, and
 * runs never overlap. The timers do not keep the process alive.
 */
export class Throttle {
  #timer: NodeJS.Timeout | undefined
  #isRequested = false
  #running: Promise<void> | undefined
  #isClosed = false

  /** @param work must never throw or reject */
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

  /** Delays the next run until one full interval from now has passed. */
  hold(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isRequested && !this.#running) this.#begin()
    }, this.options.intervalMs).unref()
  }

  /** Drops a pending request and ignores later requests. */
  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isRequested = false
    this.#isClosed = true
  }

  /** Resolves when the run in progress has ended, or immediately if no run is in progress. */
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
