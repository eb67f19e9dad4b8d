/**
 * Runs work on one guest one after another, in the order asked for; different guests do not wait for each other.
 * Whoever reads the journal and acts on it takes a turn, so that no setting in between is lost.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  run<T>(uuid: string, work: () => T | Promise<T>): Promise<T> {
    const turn = (this.#last.get(uuid) ?? Promise.resolve()).then(work)
    const settled = turn
      .catch(() => undefined)
      .then(() => {
        if (this.#last.get(uuid) === settled) this.#last.delete(uuid)
      })
    this.#last.set(uuid, settled)
    return turn
  }

  /** Whether work for the guest runs or waits. */
  isTaken(uuid: string): boolean {
    return this.#last.has(uuid)
  }
}
