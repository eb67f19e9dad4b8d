/** One condition variable for each key, such as the id of a host. A caller waits until its own condition is true. */
export class KeyedCondition {
  readonly #byKey = new Map<string, Set<() => void>>()
  readonly #ends = new Set<() => void>()

  /** Resolves when `isOver` returns true or after `timeoutMs`. `isOver` is checked now and after each `notify`. */
  wait(key: string, timeoutMs: number, isOver: () => boolean): Promise<void> {
    if (isOver()) return Promise.resolve()
    const waiting = this.#byKey.get(key) ?? new Set()
    this.#byKey.set(key, waiting)
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        waiting.delete(check)
        if (waiting.size === 0 && this.#byKey.get(key) === waiting) this.#byKey.delete(key)
        this.#ends.delete(end)
        resolve()
      }
      const check = (): void => {
        if (isOver()) end()
      }
      const timer = setTimeout(end, timeoutMs)
      waiting.add(check)
      this.#ends.add(end)
    })
  }

  /** Reports that the key's state has changed. All callers that wait for the key check their conditions again. */
  notify(key: string): void {
    for (const check of [...(this.#byKey.get(key) ?? [])]) check()
  }

  notifyAll(): void {
    for (const key of [...this.#byKey.keys()]) this.notify(key)
  }

  /** Ends all waits, even if their conditions are false. */
  releaseAll(): void {
    for (const end of [...this.#ends]) end()
  }
}
