import { steadyClock } from '../../shared/steady-clock.js'
import { planCuts, type Share } from '../store/fair-cuts.js'
import { readShares } from '../store/shares.js'
import type { Store, StoreClient } from '../store/store.js'
import type { Principal } from './principal.js'

/** Maximum number of records in one command of the store. */
const atOnce = 1000

/**
 * Ages of the records of requests with an Idempotency-Key, by caller. If there are too many records, the callers with
 * the most records lose their oldest ones.
 *
 * | key | holds |
 * |---|---|
 * | `idempotency-by:REF` | sorted set: names of records by time |
 * | `idempotency-callers` | set: `Principal.root` and `Principal.ref` of each caller with records |
 */
export class IdempotencyAges {
  constructor(private readonly store: Store) {}

  /** Stores the time of a new record. Does nothing for a record whose time is already known. */
  async note(client: StoreClient, { ref, root }: Pick<Principal, 'ref' | 'root'>, id: string): Promise<void> {
    await Promise.all([
      client.zAdd(this.#by(ref), { score: steadyClock.now(), value: id }, { condition: 'NX' }),
      client.sAdd(this.#callers, JSON.stringify([root, ref])),
    ])
  }

  /** Deletes expired records. Beyond `keep` records, deletes the oldest ones of the callers with the most records. */
  async trim(
    client: StoreClient,
    { keep, keepMs, drop }: { keep: number; keepMs: number; drop: (ids: string[]) => Promise<void> },
  ): Promise<void> {
    const shares = await this.#shares(client, steadyClock.earliest() - keepMs)
    // Deletes the list that earlier versions used for all callers together.
    await client.unlink(this.store.key('idempotency-ages'))
    const excess = shares.reduce((sum, { count }) => sum + count, 0) - keep
    if (excess <= 0) return
    for (const [ref, cut] of planCuts(shares, excess))
      for (let left = cut; left > 0; left -= atOnce) {
        const oldest = await client.zPopMinCount(this.#by(ref), Math.min(left, atOnce))
        await drop(oldest.map(({ value }) => value))
      }
  }

  /** Deletes the times of expired records. Returns the number of the other records for each caller. */
  async #shares(client: StoreClient, oldestMs: number): Promise<Share[]> {
    const members = await client.sMembers(this.#callers)
    const refs = members.map((member) => (JSON.parse(member) as [root: string, ref: string])[1])
    await Promise.all(refs.map((ref) => client.zRemRangeByScore(this.#by(ref), '-inf', oldestMs)))
    const names = { callers: this.#callers, by: (ref: string) => this.#by(ref) }
    return readShares(this.store, 'remove old records of requests', names)
  }

  get #callers(): string {
    return this.store.key('idempotency-callers')
  }

  #by(ref: string): string {
    return this.store.key('idempotency-by', ref)
  }
}
