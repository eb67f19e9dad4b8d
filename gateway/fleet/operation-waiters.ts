/** Callers that wait for changes of an operation. */
export class OperationWaiters {
  readonly #byId = new Map<string, Set<() => void>>()

  /** Resolves when `isOver`, checked at once and after each change, or after `timeoutMs`. */
  wait(id: string, timeoutMs: number, isOver: () => boolean): Promise<void> {
    if (isOver()) return Promise.resolve()
    const waiting = this.#byId.get(id) ?? new Set()
    this.#byId.set(id, waiting)
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        waiting.delete(check)
        if (waiting.size === 0) this.#byId.delete(id)
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

  changed(id: string): void {
    for (const check of [...(this.#byId.get(id) ?? [])]) check()
  }

  releaseAll(): void {
    for (const end of [...this.#ends]) end()
  }

  readonly #ends = new Set<() => void>()
}
