import { randomUUID } from 'node:crypto'
import type { Store } from '../store/store.js'

/** A lock among all gateways on a store. It expires when its holder dies. */
export class StoreLock {
  constructor(
    private readonly store: Store,
    private readonly name: string,
    /** Time in ms after which the lock expires. It must exceed the longest duration of the work. */
    private readonly leaseMs: number,
  ) {}

  /**
   * Runs work if nobody holds the lock.
   * @returns undefined if the lock is held
   * @throws {BerthError} `store_unavailable`, or the error of `work`
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
      await this.#release(holder).catch(() => undefined) // after a failure, the lock expires by itself
    }
  }

  /** Releases the lock if this process still holds it. After its expiry, another process can hold the lock. */
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
