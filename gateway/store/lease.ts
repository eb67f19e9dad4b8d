import { randomUUID } from 'node:crypto'
import type { Store } from './store.js'

/**
 * A lease that only one of the gateways on a store holds. When its holder dies, another gateway takes it over after a
 * short time; after `release`, at once.
 */
export class Lease {
  readonly #holder = randomUUID()
  #heldUntilMs = 0

  constructor(
    private readonly store: Store,
    private readonly name: string,
    private readonly leaseMs: number,
  ) {}

  /** True if this process certainly holds the lease: its time has not passed, so no other gateway can take it over. */
  get held(): boolean {
    return performance.now() < this.#heldUntilMs
  }

  /** Takes or renews the lease. @returns true if this process holds it @throws {BerthError} `store_unavailable` */
  async take(): Promise<boolean> {
    const askedMs = performance.now()
    const taken = await this.store.transact(`hold ${this.name}`, async (client) => {
      await client.watch(this.#key)
      const holder = await client.get(this.#key)
      if (holder !== null && holder !== this.#holder) {
        await client.unwatch()
        return false
      }
      const expiration = { type: 'PX', value: this.leaseMs } as const
      await client.multi().set(this.#key, this.#holder, { expiration }).exec()
      return true
    })
    this.#heldUntilMs = taken ? askedMs + this.leaseMs : 0
    return taken
  }

  /** Releases the lease if this process holds it. @throws {BerthError} `store_unavailable` */
  async release(): Promise<void> {
    if (!this.held) return
    this.#heldUntilMs = 0
    await this.store.transact(`give up ${this.name}`, async (client) => {
      await client.watch(this.#key)
      if ((await client.get(this.#key)) === this.#holder) await client.multi().del(this.#key).exec()
      else await client.unwatch()
    })
  }

  get #key(): string {
    return this.store.key(this.name)
  }
}
