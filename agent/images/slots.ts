/** Lets few do something at once; the others wait in line. */
export class Slots {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** @throws the signal's reason when aborted before its turn */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#enter(signal)
    try {
      return await work()
    } finally {
      this.#leave()
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) return void this.#free--
    await new Promise<void>((go, refuse) => {
      const enter = (): void => {
        signal.removeEventListener('abort', give)
        go()
      }
      const give = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        refuse(signal.reason as Error)
      }
      this.#waiting.push(enter)
      signal.addEventListener('abort', give, { once: true })
    })
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}
