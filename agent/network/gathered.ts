/** Runs the work once for all requests within `delayMs` of the first. */
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

  /** Drops a pending request. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
