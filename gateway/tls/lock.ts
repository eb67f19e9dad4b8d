import { randomUUID } from 'node:crypto'
import type { Store } from '../store/store.js'

/** A lock for all gateways on a store; it expires when its holder dies. */
export class StoreLock {
  constructor(
    private readonly store: Store,
    private readonly name: string,
    /** The locked work must take less time. */
    private readonly leaseMs: number,
  ) {}

  /**
   * Runs work unless the lock is held.
   * @returns undefined: it is held
   * @throws {BerthError} `store_unavailable`, and what the work throws
   */
  async tryRun<T>(work: () => Promise<T>): Promise<{ readonly result: T } | undefined> {
    const holder = randomUUID()
    const taken = await this.store.run(`lock ${this.name}`, (client) =>
      client.set(this.#key, holder, {
        condition: 'NX',
        expiration: { type: 'PX', value: this.leaseMs },
      }),
    )
    if (taken === null) return undefined
    try {
      return { result: await work() }
    } finally {
      await this.#release(holder).catch(() => undefined) // it expires otherwise
    }
  }

  /** Releases only its own lock: the lease may have expired, and another process may hold it. */
  async #release(holder: string): Promise<void> {
    await this.store.transact(`unlock ${this.name}`, async (client) => {
      await client.watch(this.#key)
      if ((await client.get(this.#key)) === holder) await client.multi().del(this.#key).exec()
      else await client.unwatch()
    })
  }

  get #key(): string {
    return this.store.key(this.name)
  }
}
