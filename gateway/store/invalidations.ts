/** Called with a changed key; `null`: any key can have changed. A promise resolves when the change is applied. */
export type InvalidationListener = (key: string | null) => unknown

/** Listeners for changes of keys, and their work in progress. */
export class Invalidations {
  readonly #listeners = new Map<string, InvalidationListener[]>()
  readonly #running = new Set<Promise<unknown>>()

  get prefixes(): string[] {
    return [...this.#listeners.keys()]
  }

  listen(prefix: string, listener: InvalidationListener): void {
    this.#listeners.set(prefix, [...(this.#listeners.get(prefix) ?? []), listener])
  }

  report(key: string | null): void {
    for (const [prefix, listeners] of this.#listeners)
      if (key === null || key.startsWith(prefix)) listeners.forEach((listener) => this.add(listener(key)))
  }

  /** Adds work for which `applied` waits. */
  add(work: unknown): void {
    if (!(work instanceof Promise)) return
    const running: Promise<unknown> = work.catch(() => undefined).finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Resolves when this process has applied all changes that were reported before this call. Never rejects. */
  async applied(): Promise<void> {
    await Promise.all(this.#running)
  }
}
