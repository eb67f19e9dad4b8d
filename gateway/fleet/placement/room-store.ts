import type { Transaction } from '../../store/leased-writes.js'
import type { Store, StoreClient } from '../../store/store.js'
import type { ReservedRoom, ReservedRooms, RoomChanges } from './plan-rooms.js'

/**
 * Reservations of host resources for guests. All gateways that share the store use them. Each transaction that
 * reserves resources watches the key, and runs again if another transaction has changed a reservation.
 * | key | holds |
 * |---|---|
 * | `reserved-rooms` | hash: id of the operation that creates or moves the guest → ReservedRoom as JSON |
 */
export class RoomStore {
  constructor(private readonly store: Store) {}

  get key(): string {
    return this.store.key('reserved-rooms')
  }

  /** Reads all reservations without changing any. @throws {BerthError} `store_unavailable` */
  async list(): Promise<ReservedRooms> {
    return this.store.run('read reserved resources', (client) => this.read(client))
  }

  async read(client: StoreClient): Promise<ReservedRooms> {
    const found = await client.hGetAll(this.key)
    return new Map(Object.entries(found).map(([id, text]) => [id, JSON.parse(text) as ReservedRoom]))
  }

  async find(client: StoreClient, id: string): Promise<ReservedRoom | undefined> {
    const text = await client.hGet(this.key, id)
    return text ? (JSON.parse(text) as ReservedRoom) : undefined
  }

  put(steps: Transaction, changes: RoomChanges): void {
    for (const [id, room] of changes)
      if (room) steps.hSet(this.key, id, JSON.stringify(room))
      else steps.hDel(this.key, id)
  }

  /**
   * Changes reservations in one transaction.
   * @param plan called with all reservations; called again if another gateway has changed a reservation in the meantime
   * @throws {BerthError} `store_unavailable`, or the error of `plan`
   */
  async change<T>(plan: (rooms: ReservedRooms) => { readonly changes: RoomChanges; readonly result: T }): Promise<T> {
    return this.store.transact('reserve resources', async (client) => {
      const [, rooms] = await Promise.all([client.watch(this.key), this.read(client)])
      const { changes, result } = plan(rooms)
      if (changes.size === 0) {
        await client.unwatch()
        return result
      }
      const steps = client.multi()
      this.put(steps, changes)
      await steps.exec()
      return result
    })
  }
}
