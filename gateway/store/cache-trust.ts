import { SingleFlight } from '../../shared/async/single-flight.js'
import { storeUnavailable, toStoreError, withTimeout } from './connection.js'
import { trustMs } from './plan-visibility.js'

/** Time limit in ms of an exchange with the server, including the time until all reported changes are in force. */
const renewTimeoutMs = 5000
/** Maximum number of exchanges until one was fast enough, so that the caches may be used. */
const trustAttempts = 3

export interface CacheTrustOptions {
  /**
   * Sends a PING and waits for the answer. Before the answer, the server reports all changes that it has acknowledged.
   * @param serves true: the answer allows the use of caches
   */
  readonly exchange: (serves: boolean) => Promise<void>
  /** Resolves when all reported changes are in force in this process. Never rejects. */
  readonly applied: () => Promise<void>
}

/** Knows up to which time this process has applied all changes in the server, so that it may use its caches. */
export class CacheTrust {
  /** In the time of performance.now(). */
  #confirmedMs = -Infinity
  #applied = Promise.resolve()
  /** Number of exchanges with the server whose reported changes are not in force in this process yet. */
  #unapplied = 0
  /** Number of connections that were lost. */
  #losses = 0
  readonly #renewals = new SingleFlight()

  constructor(private readonly options: CacheTrustOptions) {}

  /** -Infinity: there was no exchange since the connection was lost. */
  get confirmedMs(): number {
    return this.#confirmedMs
  }

  /** Call it when the connection was lost. Later answers on it no longer count. */
  reset(): void {
    this.#losses++
    this.#confirmedMs = -Infinity
  }

  /** Waits until the caches may be used. @throws {BerthError} `store_unavailable` */
  async ensure(): Promise<void> {
    for (let attempt = 0; performance.now() - this.#confirmedMs > trustMs; attempt++) {
      if (attempt === trustAttempts) throw storeUnavailable('the server answers too slowly')
      await this.#renewals
        .run(() => withTimeout(renewTimeoutMs, this.#renew()))
        .catch((cause: unknown) => {
          throw toStoreError(cause, 'apply the changes of other gateways')
        })
    }
  }

  /**
   * Exchanges a PING with the server. The caches may not be used while changes of an earlier exchange are not in force:
   * other gateways would wait for this gateway in vain.
   */
  async exchange(): Promise<void> {
    const { exchange, applied } = this.options
    const losses = this.#losses
    const serves = this.#unapplied === 0
    const sentMs = performance.now()
    await exchange(serves)
    if (!serves) return
    this.#unapplied++
    this.#applied = applied().then(() => {
      this.#unapplied--
      if (losses === this.#losses) this.#confirmedMs = Math.max(this.#confirmedMs, sentMs)
    })
  }

  async #renew(): Promise<void> {
    await this.#applied
    await this.exchange()
    await this.#applied
  }
}
