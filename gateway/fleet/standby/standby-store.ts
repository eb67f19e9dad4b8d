import { usualStandbyMinutes } from '../../../shared/standby-rules.js'
import type { StandbySettings } from '../move-contract.js'
import type { Store, StoreClient } from '../../store/store.js'

/** A warm standby that an administrator has set. Gateways set it again when the guest has moved. */
export interface StoredStandby extends StandbySettings {
  /** Host of the guest when the standby was last set. Increments are ordered only from this host. */
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
    return new Map(Object.entries(found).map(([uuid, text]) => [uuid, parseStored(text)!]))
  }

  async find(uuid: string): Promise<StoredStandby | undefined> {
    return this.store.run('read the standby of a container', (client) => this.#find(client, uuid))
  }

  async put(uuid: string, standby: StoredStandby): Promise<void> {
    const text = format(standby)
    await this.store.run('write the standby of a container', (client) => client.hSet(this.#key, uuid, text))
  }

  /**
   * Replaces the standby `standbyId` of a guest. Without `next`, removes it.
   * @param standbyId undefined: the guest has no stored standby
   * @returns false if nothing was written, because the guest has another standby or none by now
   */
  async replace(uuid: string, standbyId: string | undefined, next: StoredStandby | undefined): Promise<boolean> {
    return this.store.transact('change the standby of a container', async (client) => {
      await client.watch(this.#key)
      const known = await this.#find(client, uuid)
      if (known?.standbyId !== standbyId) {
        await client.unwatch()
        return false
      }
      const steps = client.multi()
      await (next ? steps.hSet(this.#key, uuid, format(next)) : steps.hDel(this.#key, uuid)).exec()
      return true
    })
  }

  async #find(client: StoreClient, uuid: string): Promise<StoredStandby | undefined> {
    return parseStored(await client.hGet(this.#key, uuid))
  }

  get #key(): string {
    return this.store.key('guest-standbys')
  }
}

/** Default settings for records of earlier versions, which contain no settings. */
const usual = { intervalMinutes: usualStandbyMinutes, bandwidthMbps: 0 }

function parseStored(text: string | null | undefined): StoredStandby | undefined {
  return text ? { ...usual, ...(JSON.parse(text) as StoredStandby) } : undefined
}

function format({ standbyId, hostId, fromHostId, intervalMinutes, bandwidthMbps }: StoredStandby): string {
  return JSON.stringify({ standbyId, hostId, fromHostId, intervalMinutes, bandwidthMbps })
}
