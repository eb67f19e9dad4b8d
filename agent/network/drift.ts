/**
 * Whether a part of the host is to be looked at in full again: another program changed it, the last look failed, or
 * none was for a while, since a watch may miss something.
 */
export class Drift {
  #noted = true
  #lookedAtMs = -Infinity

  /** @param everyMs 0: each look is in full, as where nothing tells of changes */
  constructor(private readonly everyMs: number) {}

  note(): void {
    this.#noted = true
  }

  get isDue(): boolean {
    return this.#noted || performance.now() - this.#lookedAtMs >= this.everyMs
  }

  /** What is noted during the look is for the next one. */
  async look<T>(work: () => Promise<T>): Promise<T> {
    this.#noted = false
    this.#lookedAtMs = performance.now()
    try {
      return await work()
    } catch (cause) {
      this.#noted = true
      throw cause
    }
  }
}
