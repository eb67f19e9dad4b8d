import type { Logger } from 'pino'

const defaultLimit = 10_000

/**
 * Outcomes of audit entries that the store could not take, until it can. They are in memory only, and end
 * with the process.
 */
export class LateOutcomes<T> {
  /** In the order they came. */
  readonly #waiting = new Set<T>()
  #flushing = false

  constructor(
    private readonly append: (outcome: T) => Promise<unknown>,
    private readonly log: Logger,
    private readonly limit = defaultLimit,
  ) {}

  /** Beyond the limit the oldest is dropped. */
  add(outcome: T): void {
    this.#waiting.add(outcome)
    const [oldest] = this.#waiting
    if (this.#waiting.size <= this.limit || oldest === undefined) return
    this.#waiting.delete(oldest)
    this.log.error({ outcome: oldest }, 'audit: too many outcomes wait for the store; the oldest is dropped')
  }

  /** Appends what waits, one after another, up to the first that fails. Never throws. */
  async flush(): Promise<void> {
    if (this.#flushing) return
    this.#flushing = true
    try {
      for (const outcome of this.#waiting) {
        await this.append(outcome)
        this.#waiting.delete(outcome)
      }
    } catch (err) {
      this.log.warn({ err, waiting: this.#waiting.size }, 'audit: outcomes still wait for the store')
    } finally {
      this.#flushing = false
    }
  }
}
