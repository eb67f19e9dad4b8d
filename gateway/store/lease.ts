import { randomUUID } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import type { Fence } from '../../shared/fence.js'
import { planLease, type LeaseGrant } from './plan-lease.js'
import type { Store, StoreClient } from './store.js'

/**
 * A lease that at most one gateway of a store holds. Another gateway can take over the lease a short time after its
 * holder has died, or immediately after `release`. Each take-over increases the epoch, see `shared/fence.ts`.
 */
export class Lease {
  readonly #holder = randomUUID()
  #heldUntilMs = 0
  #epoch: number | undefined
  /** True if the last attempt to take the lease got no answer. The store has possibly executed this attempt. */
  #isUnsure = false
  #above = 0

  constructor(
    private readonly store: Store,
    readonly name: string,
    private readonly leaseMs: number,
  ) {}

  /** True if this process certainly holds the lease, so that no other gateway can take it over before it expires. */
  get held(): boolean {
    return performance.now() < this.#heldUntilMs
  }

  /** Number of this take-over. Later take-overs have higher numbers. undefined: this process holds no lease. */
  get epoch(): number | undefined {
    return this.held ? this.#epoch : undefined
  }

  /** Proof for agents that this process holds the lease. @throws {BerthError} `lease_lost` */
  get fence(): Fence {
    const epoch = this.epoch
    if (epoch === undefined) throw this.#lost()
    return { work: this.name, epoch }
  }

  /** Takes or renews the lease. @returns true if this process now holds it @throws {BerthError} `store_unavailable` */
  async take(): Promise<boolean> {
    const askedMs = performance.now()
    const epoch = this.#isUnsure ? undefined : this.#epoch
    this.#isUnsure = true
    const grant = await this.store.transact(`take the lease ${this.name}`, (client) => this.#claim(client, epoch))
    this.#isUnsure = false
    this.#epoch = grant?.epoch
    this.#heldUntilMs = grant ? askedMs + this.leaseMs : 0
    return grant !== undefined
  }

  /** Remembers an epoch that an agent has seen. The next renewal ensures that the lease's epoch is higher. */
  exceed(epoch: number): void {
    this.#above = Math.max(this.#above, epoch)
  }

  /**
   * Makes the transaction fail if another process takes over the lease. Call it within `store.transact`, before MULTI.
   * @param epoch epoch in which the work of the transaction began. Default: the latest epoch of this process
   * @throws {BerthError} `lease_lost` if the lease already has another epoch, even a later epoch of this process
   */
  async guard(client: StoreClient, epoch = this.#epoch): Promise<void> {
    await client.watch(this.#key)
    if (epoch === undefined || (await client.get(this.#key)) !== this.#valueOf(epoch)) throw this.#lost()
  }

  /** Releases the lease if this process holds it. @throws {BerthError} `store_unavailable` */
  async release(): Promise<void> {
    if (!this.held) return
    this.#heldUntilMs = 0
    await this.store.transact(`release the lease ${this.name}`, async (client) => {
      await client.watch(this.#key)
      if (holderOf(await client.get(this.#key)) === this.#holder) await client.multi().del(this.#key).exec()
      else await client.unwatch()
    })
  }

  async #claim(client: StoreClient, epoch: number | undefined): Promise<LeaseGrant | undefined> {
    await client.watch([this.#key, this.#counterKey])
    const [value, count] = await client.mGet([this.#key, this.#counterKey])
    const counter = Number(count ?? 0)
    const claim = { holder: this.#holder, epoch, above: this.#above }
    const grant = planLease({ holder: holderOf(value ?? null), counter }, claim)
    if (!grant) {
      await client.unwatch()
      return undefined
    }
    const expiration = { type: 'PX', value: this.leaseMs } as const
    const steps = client.multi().set(this.#key, this.#valueOf(grant.epoch), { expiration })
    if (grant.counter !== counter) steps.set(this.#counterKey, String(grant.counter))
    await steps.exec()
    return grant
  }

  #valueOf(epoch: number): string {
    return `${this.#holder} ${epoch}`
  }

  #lost(): BerthError {
    return new BerthError('unavailable', 'lease_lost', `another gateway has taken over the lease ${this.name}`)
  }

  get #key(): string {
    return this.store.key(this.name)
  }

  /** Key of a counter that all leases share, so that no two leases ever get the same epoch. */
  get #counterKey(): string {
    return this.store.key('lease-epoch')
  }
}

/** Returns the holder of a lease from its value in the store: `HOLDER EPOCH`, from older gateways only `HOLDER`. */
function holderOf(value: string | null): string | null {
  return value === null ? null : value.split(' ')[0]!
}
