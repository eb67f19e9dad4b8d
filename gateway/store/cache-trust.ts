import { SingleFlight } from '../../shared/async/single-flight.js'
import { storeUnreachable, toStoreError, withTimeout } from './connection.js'
import { trustMs } from './plan-visibility.js'

/** Time limit in ms for a PING to Redis and for applying the changes that Redis reports before its answer. */
const renewTimeoutMs = 10_000
/** Maximum number of PINGs in one `ensure`. It fails if all answers are too old when their changes are applied. */
const trustAttempts = 3

export interface CacheTrustOptions {
  /**
   * Sends a PING. Before its answer, Redis reports to this gateway all changes that it acknowledged to any client.
   * @param serves true if the answer allows this gateway to use its caches
   */
  readonly exchange: (serves: boolean) => Promise<void>
  /** Resolves when this process has applied all reported changes. Never rejects. */
  readonly applied: () => Promise<void>
}

/** Records up to which time this process has applied all changes of the server. Decides whether caches can be used. */
export class CacheTrust {
  /** Time up to which this process has applied all changes of the server, in ms of performance.now(). */
  #confirmedMs = -Infinity
  #applied = Promise.resolve()
  /** Number of exchanges with the server whose reported changes this process has not applied yet. */
  #unapplied = 0
  #losses = 0
  readonly #renewals = new SingleFlight()

  constructor(private readonly options: CacheTrustOptions) {}

  /** Time up to which all changes are applied. -Infinity: no exchange has succeeded since the connection was lost. */
  get confirmedMs(): number {
    return this.#confirmedMs
  }

  /** Call this when the connection was lost. Later answers on the lost connection do not count. */
  reset(): void {
    this.#losses++
    this.#confirmedMs = -Infinity
  }

  /** Waits until the caches can be used. @throws {BerthError} `store_unavailable` */
  async ensure(): Promise<void> {
    for (let attempt = 0; performance.now() - this.#confirmedMs > trustMs; attempt++) {
      if (attempt === trustAttempts) throw storeUnreachable('it answers too slowly')
      await this.#renewals
        .run(() => withTimeout(renewTimeoutMs, this.#renew()))
        .catch((cause: unknown) => {
          throw toStoreError(cause, 'apply the changes of other gateways')
        })
    }
  }

  /**
   * Exchanges a PING with the server. Until the changes of an earlier exchange are applied, this gateway does not use
   * its caches, so that other gateways need not wait for this gateway.
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
