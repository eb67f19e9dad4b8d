/** Lets concurrent callers share one run: each call during a run gets the result of this run. */
export class SingleFlight<Result = void> {
  #running: Promise<Result> | undefined

  /** @throws the error of the work, to every caller that shares the run */
  run(work: () => Promise<Result>): Promise<Result> {
    this.#running ??= work().finally(() => (this.#running = undefined))
    return this.#running
  }

  /** Resolves when the run in progress has ended. Never rejects. */
  async settled(): Promise<void> {
    await this.#running?.catch(() => undefined)
  }
}

export class KeyedSingleFlight<Key, Result = void> {
  readonly #running = new Map<Key, Promise<Result>>()

  /** Keys with a run in progress. */
  get keys(): readonly Key[] {
    return [...this.#running.keys()]
  }

  /** True if a run for the key is in progress. */
  has(key: Key): boolean {
    return this.#running.has(key)
  }

  /** @throws the error of the work, to every caller that shares the run */
  run(key: Key, work: () => Promise<Result>): Promise<Result> {
    const running = this.#running.get(key)
    if (running) return running
    const begun = work().finally(() => this.#running.delete(key))
    this.#running.set(key, begun)
    return begun
  }

  /** Resolves when the run in progress for this key has ended. Never rejects. */
  async settled(key: Key): Promise<void> {
    await this.#running.get(key)?.catch(() => undefined)
  }
}
