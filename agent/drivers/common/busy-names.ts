/** Names of guests that a driver starts, stops or deletes. If such a guest ends, the driver does not report it. */
export class BusyNames {
  readonly #acts = new Map<string, number>()

  has(name: string): boolean {
    return this.#acts.has(name)
  }

  /** Marks the name as busy while `act` runs. Calls for one name can overlap. */
  async while<T>(name: string, act: () => Promise<T>): Promise<T> {
    this.#acts.set(name, (this.#acts.get(name) ?? 0) + 1)
    try {
      return await act()
    } finally {
      const left = (this.#acts.get(name) ?? 1) - 1
      if (left > 0) this.#acts.set(name, left)
      else this.#acts.delete(name)
    }
  }
}
