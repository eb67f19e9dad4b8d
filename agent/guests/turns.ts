/**
 * Work on one guest's settings runs one after another, in the order asked for; that on others is not waited
 * for. What reads the journal and acts on it takes a turn where a setting in between would be lost.
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

  /** Something runs, or waits for its turn. */
  isTaken(uuid: string): boolean {
    return this.#last.has(uuid)
  }
}
