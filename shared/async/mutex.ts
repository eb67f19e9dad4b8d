/** Mutual exclusion: runs pieces of work one after another, in the order of the calls. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve()
  #pending = 0

  /** True if work is running or waiting. */
  get isLocked(): boolean {
    return this.#pending > 0
  }

  /** Runs the work, even if earlier work failed. @throws the error of the work */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    this.#pending++
    const result = this.#last.then(work)
    const release = (): void => void this.#pending--
    this.#last = result.then(release, release)
    return result
  }

  /** Resolves when all work requested before this call has ended. Never rejects. */
  async settled(): Promise<void> {
    await this.#last
  }
}
