interface Waiter<Value> {
  resolve: (value: Value) => void
  reject: (error: Error) => void
}

/** Promises by key. Callers wait for a result that other code provides, such as the outcome of an operation. */
export class KeyedDeferred<Value> {
  readonly #waiters = new Map<string, Waiter<Value>[]>()

  wait(key: string): Promise<Value> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(key)
      if (waiters) waiters.push({ resolve, reject })
      else this.#waiters.set(key, [{ resolve, reject }])
    })
  }

  resolve(key: string, value: Value): void {
    for (const { resolve } of this.#take(key)) resolve(value)
  }

  reject(key: string, error: Error): void {
    for (const { reject } of this.#take(key)) reject(error)
  }

  rejectAll(error: Error): void {
    for (const key of [...this.#waiters.keys()]) this.reject(key, error)
  }

  #take(key: string): readonly Waiter<Value>[] {
    const waiters = this.#waiters.get(key) ?? []
    this.#waiters.delete(key)
    return waiters
  }
}
