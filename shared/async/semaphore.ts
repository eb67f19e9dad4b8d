/** Runs at most a given number of pieces of work at once. The others wait, first come first served. */
export class Semaphore {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(limit: number) {
    this.#free = limit
  }

  /**
   * @param signal ends the wait for a place; it does not end the work
   * @throws the signal's reason when it is aborted before the work begins; what the work throws
   */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free--
    else await this.#wait(signal)
    try {
      return await work()
    } finally {
      this.#release()
    }
  }

  #wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting.delete(enter)
        reject(signal?.reason as Error)
      }
      this.#waiting.add(enter)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  /** Passes the place on, so that no later caller can take it first. */
  #release(): void {
    const [next] = this.#waiting
    if (next === undefined) return void this.#free++
    this.#waiting.delete(next)
    next()
  }
}
