/**
 * Writes the newest of many values, at most one each `intervalMs`. The last one is never lost while it is open.
 */
export class Paced<Value> {
  #timer: NodeJS.Timeout | undefined
  #waiting: { readonly value: Value } | undefined
  #closed = false

  constructor(
    private readonly write: (value: Value) => void,
    private readonly intervalMs: number,
  ) {}

  push(value: Value): void {
    if (this.#closed) return
    this.#waiting = { value }
    if (!this.#timer) this.#flush()
  }

  /** Nothing is written for one interval. */
  hold(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#flush()
    }, this.intervalMs)
    this.#timer.unref()
  }

  /** What is not written by now is outdated. */
  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #flush(): void {
    const next = this.#waiting
    this.#waiting = undefined
    if (!next) return
    this.hold()
    this.write(next.value)
  }
}
