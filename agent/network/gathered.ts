/** What several ask for within a moment is done once, that long after the first asked. */
export class Gathered {
  #timer: NodeJS.Timeout | undefined

  constructor(
    private readonly delayMs: number,
    private readonly work: () => void,
  ) {}

  ask(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.work()
    }, this.delayMs).unref()
  }

  /** What was asked for and is not done yet is not done. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
