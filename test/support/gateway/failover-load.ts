import { setTimeout as delay } from 'node:timers/promises'

export interface LoadOptions {
  /** Number of writers, each of which makes one write after another. */
  readonly writers: number
  /** Pause of a writer after each write, in ms. */
  readonly pauseMs: number
  /** Makes one write. @returns true if the write was acknowledged; false if it was refused or has no known result */
  readonly write: (name: string) => Promise<boolean>
  /** True: a writer repeats each write until it is acknowledged. Default: each write is made once. */
  readonly repeats?: boolean
}

/** Makes writes with different names, from several writers at once, until `end` is called. */
export class FailoverLoad {
  readonly acknowledged = new Set<string>()
  refused = 0
  readonly #writers: Promise<void>[]
  #isEnded = false
  #lastMs = performance.now()
  #longestGapMs = 0

  constructor(private readonly options: LoadOptions) {
    this.#writers = Array.from({ length: options.writers }, (_, writer) => this.#run(writer))
  }

  /** Longest time in ms without an acknowledged write since the last call of this method. */
  takeLongestGapMs(): number {
    const gapMs = this.#longestGapMs
    this.#longestGapMs = 0
    return gapMs
  }

  async end(): Promise<void> {
    this.#isEnded = true
    await Promise.all(this.#writers)
  }

  async #run(writer: number): Promise<void> {
    for (let count = 0; !this.#isEnded; count++) {
      const name = `write-${writer}-${count}`
      while (!(await this.#write(name)) && this.options.repeats) await delay(20)
      await delay(this.options.pauseMs)
    }
  }

  async #write(name: string): Promise<boolean> {
    if (!(await this.options.write(name))) {
      this.refused++
      return false
    }
    const nowMs = performance.now()
    this.#longestGapMs = Math.max(this.#longestGapMs, nowMs - this.#lastMs)
    this.#lastMs = nowMs
    this.acknowledged.add(name)
    return true
  }
}
