/** Limits how many pieces of work run simultaneously. Further work waits and begins in the order of the calls. */
export class Semaphore {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(limit: number) {
    this.#free = limit
  }

  /**
   * @param signal ends the wait before the work begins; it does not stop work in progress
   * @throws the signal's reason if it is aborted before the work begins; the error of the work
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

  /** Lets the next waiter begin directly, so that no later caller can begin before it. */
  #release(): void {
    const [next] = this.#waiting
    if (next === undefined) return void this.#free++
    this.#waiting.delete(next)
    next()
  }
}
