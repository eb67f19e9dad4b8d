/** Runs of one piece of work for all who ask: one at a time, and one that waits for whoever asks meanwhile. */
export class JoinedRuns {
  #current: Promise<unknown> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(private readonly work: () => Promise<void>) {}

  /** A run that begins after this call: one under way may have read what was before. @throws what the work does */
  run(): Promise<void> {
    this.#next ??= this.#current.then(() => {
      this.#next = undefined
      const run = this.work()
      this.#current = run.catch(() => undefined)
      return run
    })
    return this.#next
  }

  /** Once none runs nor waits. */
  async settled(): Promise<void> {
    await this.#next?.catch(() => undefined)
    await this.#current
  }
}
