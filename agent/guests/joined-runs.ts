/** Shares runs of one piece of work among callers: at most one runs, and at most one more waits. */
export class JoinedRuns {
  #current: Promise<unknown> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(private readonly work: () => Promise<void>) {}

  /**
   * Resolves after a run that begins after this call, since one under way may have read older state. @throws what the
   * work throws
   */
  run(): Promise<void> {
    this.#next ??= this.#current.then(() => {
      this.#next = undefined
      const run = this.work()
      this.#current = run.catch(() => undefined)
      return run
    })
    return this.#next
  }

  /** Resolves when no run is under way or waiting. */
  async settled(): Promise<void> {
    await this.#next?.catch(() => undefined)
    await this.#current
  }
}
