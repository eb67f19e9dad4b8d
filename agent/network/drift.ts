/**
 * Decides when a part of the host must be read in full again: after a change by another program, after a failed read,
 * and at intervals, because the netlink watch can miss a change.
 */
export class Drift {
  #noted = true
  #lookedAtMs = -Infinity

  /** @param everyMs longest time in ms between full reads; 0: every read is full, as needed without a netlink watch */
  constructor(private readonly everyMs: number) {}

  note(): void {
    this.#noted = true
  }

  get isDue(): boolean {
    return this.#noted || performance.now() - this.#lookedAtMs >= this.everyMs
  }

  /** Runs a full read of the host. If `note` is called during the read, another full read is due afterwards. */
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
