/** Condition variables by key: callers wait for a condition of an operation or a host. */
export class ConditionWaiters {
  readonly #byKey = new Map<string, Set<() => void>>()
  readonly #ends = new Set<() => void>()

  /** Resolves when `isOver`, checked at once and after each change, or after `timeoutMs`. */
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

  changed(key: string): void {
    for (const check of [...(this.#byKey.get(key) ?? [])]) check()
  }

  checkAll(): void {
    for (const key of [...this.#byKey.keys()]) this.changed(key)
  }

  releaseAll(): void {
    for (const end of [...this.#ends]) end()
  }
}
