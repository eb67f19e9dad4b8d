/** Runs all added functions in reverse order, even after failures. */
export class Closers {
  readonly #list: (() => unknown)[] = []

  add(close: () => unknown): void {
    this.#list.push(close)
  }

  /** @throws {AggregateError} with all failures */
  async run(): Promise<void> {
    const failures: unknown[] = []
    for (const close of this.#list.splice(0).reverse()) {
      try {
        await close()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, 'close')
  }
}
