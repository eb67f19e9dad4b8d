import { SingleFlight } from '../../shared/async/single-flight.js'
import type { Logger } from 'pino'

const defaultLimit = 10_000

/** Keeps audit outcomes in memory until the store accepts them. If the process ends earlier, they are lost. */
export class LateOutcomes<T> {
  /** Outcomes in the order of their arrival. */
  readonly #waiting = new Set<T>()
  readonly #flushing = new SingleFlight()

  constructor(
    private readonly append: (outcome: T) => Promise<unknown>,
    private readonly log: Logger,
    private readonly limit = defaultLimit,
  ) {}

  /** Adds an outcome. If too many outcomes are waiting, the oldest outcome is dropped. */
  add(outcome: T): void {
    this.#waiting.add(outcome)
    const [oldest] = this.#waiting
    if (this.#waiting.size <= this.limit || oldest === undefined) return
    this.#waiting.delete(oldest)
    this.log.error(
      { outcome: oldest },
      'audit log: too many results of requests are waiting for the store; the oldest was dropped and will be missing',
    )
  }

  /** Writes waiting outcomes in order, and stops at the first failure. Never rejects. */
  flush(): Promise<void> {
    return this.#flushing.run(() => this.#flush())
  }

  async #flush(): Promise<void> {
    try {
      for (const outcome of this.#waiting) {
        await this.append(outcome)
        this.#waiting.delete(outcome)
      }
    } catch (err) {
      this.log.warn(
        { err, waiting: this.#waiting.size },
        'audit: results of requests cannot be written, because the store is not available',
      )
    }
  }
}
