import type { Store } from '../../store/store.js'

/** A warm standby that an administrator has set. */
export interface StoredStandby {
  readonly standbyId: string
  /** Host of the copy. */
  readonly hostId: string
  /** Host of the guest at that time. A standby does not move with its guest. */
  readonly fromHostId: string
}

/**
 * Warm standbys that administrators have set, shared by all gateways. A host reports its guests' standbys, too, but a
 * compromised host could invent some. All methods throw BerthError `store_unavailable`.
 *
 * | key | holds |
 * |---|---|
 * | `guest-standbys` | hash: uuid → StoredStandby as JSON |
 */
export class StandbyStore {
  constructor(private readonly store: Store) {}

  async list(): Promise<Map<string, StoredStandby>> {
    const found = await this.store.run('read the standbys of containers', (client) => client.hGetAll(this.#key))
    return new Map(Object.entries(found).map(([uuid, text]) => [uuid, JSON.parse(text) as StoredStandby]))
  }

  async put(uuid: string, { standbyId, hostId, fromHostId }: StoredStandby): Promise<void> {
    const text = JSON.stringify({ standbyId, hostId, fromHostId })
    await this.store.run('write the standby of a container', (client) => client.hSet(this.#key, uuid, text))
  }

  async remove(uuid: string): Promise<void> {
    await this.store.run('remove the standby of a container', (client) => client.hDel(this.#key, uuid))
  }

  get #key(): string {
    return this.store.key('guest-standbys')
  }
}
