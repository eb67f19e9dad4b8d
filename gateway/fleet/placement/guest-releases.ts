import { Coalescer } from '../../../shared/async/coalescer.js'
import type { Transaction } from '../../store/leased-writes.js'
import type { Store, StoreClient } from '../../store/store.js'
import { parseReservation, type GuestKeys } from './guest-keys.js'
import type { Reservation } from './plan-claims.js'
import type { RoomStore } from './room-store.js'

/** Maximum number of guests in a transaction. */
const batchSize = 200

/** Time in ms for which old copies of a deleted guest are recognized when a failed host returns. */
const rememberMs = 365 * 24 * 3_600_000

interface WaitingRelease extends Reservation {
  readonly isDeleted: boolean
}

/**
 * Frees names, ids and resources of guests that no longer exist. All waiting guests share one transaction. Each gateway
 * learns of each deleted guest. After a downtime, it learns of hundreds at once. With a transaction for each guest,
 * other transactions would wait for seconds.
 */
export class GuestReleases {
  #waiting = new Map<string, WaitingRelease>()
  readonly #rounds = new Coalescer(() => this.#releaseWaiting())

  constructor(
    private readonly store: Store,
    private readonly keys: GuestKeys,
    private readonly rooms: RoomStore,
  ) {}

  /**
   * Frees guests of a host. Ignores guests that are unknown or belong to another host.
   * @param isDeleted false if the guests possibly still exist, because their host was removed from the fleet
   */
  async release(hostId: string, uuids: readonly string[], isDeleted = true): Promise<void> {
    if (uuids.length === 0) return
    const held = await this.store.run('look up the owners of guests', (client) => this.#read(client, uuids))
    const own = held.filter((one) => one.hostId === hostId && one.evacuatedFrom === undefined)
    if (own.length === 0) return
    for (const one of own) this.#waiting.set(one.uuid, { ...one, isDeleted })
    await this.#rounds.run()
  }

  async #releaseWaiting(): Promise<void> {
    const waiting = [...this.#waiting.values()]
    this.#waiting = new Map()
    for (let at = 0; at < waiting.length; at += batchSize) {
      const batch = waiting.slice(at, at + batchSize)
      await this.store.transact('release the names and ids of guests', (client) => this.#releaseBatch(client, batch))
    }
  }

  async #releaseBatch(client: StoreClient, batch: readonly WaitingRelease[]): Promise<void> {
    const names = batch.map(({ name }) => this.keys.name(name))
    const [, present, nameOwners] = await Promise.all([
      client.watch([this.keys.guests, ...names]), // another gateway can rename one of the guests now
      this.#read(
        client,
        batch.map(({ uuid }) => uuid),
      ),
      client.mGet(names),
    ])
    const hosts = new Map(batch.map(({ uuid, hostId }) => [uuid, hostId]))
    const gone = present.filter(
      ({ uuid, hostId, evacuatedFrom }) => hosts.get(uuid) === hostId && evacuatedFrom === undefined,
    )
    if (gone.length === 0) return void (await client.unwatch())
    const owners = new Map(batch.map(({ name }, at) => [name, nameOwners[at] ?? '']))
    const steps = client.multi()
    // `undefined`: `batch` has an earlier name of the guest. The present name therefore belongs to this guest.
    for (const one of gone) this.#remove(steps, one, [one.uuid, undefined].includes(owners.get(one.name)))
    const deleted = new Set(batch.flatMap(({ uuid, isDeleted }) => (isDeleted ? uuid : [])))
    for (const one of gone) if (deleted.has(one.uuid)) this.#remember(steps, one)
    await steps.exec()
  }

  #remove(steps: Transaction, { uuid, id, name, newName, operationId }: Reservation, ownsName: boolean): void {
    steps.hDel(this.keys.guests, uuid).hDel(this.keys.ids, String(id))
    if (ownsName) steps.del(this.keys.name(name))
    if (newName !== undefined) steps.del(this.keys.name(newName))
    if (!operationId) return
    steps.del(this.keys.operation(operationId))
    this.rooms.put(steps, new Map([[operationId, undefined]]))
  }

  /** Stores the generation of a deleted guest, so that a former host does not start its old copy when it returns. */
  #remember(steps: Transaction, { uuid, generation = 0 }: Reservation): void {
    if (generation > 0) steps.set(this.keys.former(uuid), String(generation), { PX: rememberMs })
  }

  async #read(client: StoreClient, uuids: readonly string[]): Promise<Reservation[]> {
    const found = await client.hmGet(this.keys.guests, [...uuids])
    return found.flatMap((text) => parseReservation(text) ?? [])
  }
}
