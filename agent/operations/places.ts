/** So many pieces of work at once, first come first served. */
export class Places {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(count: number) {
    this.#free = count
  }

  /** @throws the signal's reason where it comes before the turn does; what `work` does */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#take(signal)
    try {
      return await work()
    } finally {
      this.#give()
    }
  }

  #take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free--
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const go = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting.delete(go)
        reject(signal.reason as Error)
      }
      this.#waiting.add(go)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  #give(): void {
    const [next] = this.#waiting
    if (!next) return void this.#free++
    this.#waiting.delete(next)
    next()
  }
}
