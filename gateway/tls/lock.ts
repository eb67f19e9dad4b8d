import { randomUUID } from 'node:crypto'
import type { Store } from '../store/store.js'

/** A lock over all gateways on a store; ends by itself where its holder dies. */
export class StoreLock {
  constructor(
    private readonly store: Store,
    private readonly name: string,
    /** The work below it has to take less. */
    private readonly leaseMs: number,
  ) {}

  /**
   * Runs work unless somebody holds the lock.
   * @returns undefined: somebody does
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
      await this.#release(holder).catch(() => undefined) // then it ends by itself
    }
  }

  /** Only the holder's own: the lease may have ended, and another may hold it. */
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
