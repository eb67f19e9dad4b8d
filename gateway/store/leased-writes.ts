import { Coalescer } from '../../shared/async/coalescer.js'
import type { Lease } from './lease.js'
import type { Store, StoreClient } from './store.js'

/** Commands that are executed together or not at all. */
export type Transaction = ReturnType<typeof beginTransaction>

const beginTransaction = (client: StoreClient) => client.multi()

/**
 * Writes that fail after the gateway has lost a lease, even if it has taken over the lease again. Another gateway can
 * have held the lease in between. All waiting writes form one transaction, so that the lease is checked only once.
 */
export class LeasedWrites {
  #waiting: ((transaction: Transaction) => void)[] = []
  readonly #rounds = new Coalescer(() => this.#round())

  /** @param epoch epoch of the lease in which the work began. 0: all writes fail, because the lease is not held */
  constructor(
    private readonly store: Store,
    private readonly lease: Lease,
    private readonly epoch = lease.epoch ?? 0,
  ) {}

  /** @param add adds the commands of one write @throws {BerthError} `store_unavailable`, `lease_lost` */
  write(add: (transaction: Transaction) => void): Promise<void> {
    this.#waiting.push(add)
    return this.#rounds.run()
  }

  async #round(): Promise<void> {
    const writes = this.#waiting
    this.#waiting = []
    await this.store.transact(`write as the holder of the lease ${this.lease.name}`, async (client) => {
      await this.lease.guard(client, this.epoch)
      const transaction = beginTransaction(client)
      for (const add of writes) add(transaction)
      await transaction.exec()
    })
  }
}
