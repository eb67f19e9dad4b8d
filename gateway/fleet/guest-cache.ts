import type { Logger } from 'pino'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Store } from '../store/store.js'
import type { FleetState } from './view.js'

const flushEveryMs = 1000
/** Maximum number of guests in one write. Encoding more guests in one step would delay other requests. */
const batch = 100

export interface StoredGuest {
  /** The guest as protobuf in base64. */
  readonly text: string
  readonly guest: Guest
}

/**
 * Stores the last known state of all guests. If a host is offline when a gateway starts, the gateway shows these guests
 * with the status unknown. Changes are written once a second, new guests immediately.
 *
 * `shown-guests:<host id>`: hash, uuid → Guest as protobuf in base64.
 */
export class GuestCache {
  #timer: NodeJS.Timeout | undefined

  constructor(
    private readonly store: Store,
    private readonly log: Logger,
    private readonly view: FleetState,
  ) {}

  start(): void {
    this.#timer = setInterval(() => void this.flush(), flushEveryMs)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  /** Writes a new guest durably. If that fails, the next `flush` writes the guest. */
  async keep(hostId: string, guest: Guest): Promise<void> {
    try {
      await this.store.run('store a new guest', (client) => client.hSet(this.#key(hostId), guest.uuid, encode(guest)))
    } catch (error) {
      this.log.debug({ host: hostId, guest: guest.uuid, error }, 'could not store a new guest; the gateway tries again')
    }
    this.view.unsavedGuests.add({ hostId, uuid: guest.uuid })
  }

  async load(hostId: string): Promise<StoredGuest[]> {
    const all = await this.store.run('read the stored guests of a host', (client) => client.hVals(this.#key(hostId)))
    return all.map((text) => ({ text, guest: Guest.decode(Buffer.from(text, 'base64')) }))
  }

  async forget(hostId: string): Promise<void> {
    this.view.unsavedGuests.forgetHost(hostId)
    await this.store.run('delete the stored guests of a host', (client) => client.del(this.#key(hostId)))
  }

  async flush(): Promise<void> {
    const left = this.view.unsavedGuests.takeAll()
    try {
      for (; left.length > 0; left.splice(0, batch)) await this.#write(left.slice(0, batch))
    } catch (error) {
      this.log.debug({ error }, 'could not store known guests; the gateway tries again')
      for (const guest of left) this.view.unsavedGuests.add(guest)
    }
  }

  /** Writes the changes of all hosts in one transaction, because each transaction waits for the store's disk. */
  async #write(changed: readonly { hostId: string; uuid: string }[]): Promise<void> {
    const known = changed.map((key) => ({ ...key, guest: this.#find(key) }))
    await this.store.run('store the guests of a host', async (client) => {
      const steps = client.multi()
      for (const { hostId, uuid, guest } of known)
        if (guest) steps.hSet(this.#key(hostId), uuid, encode(guest))
        else steps.hDel(this.#key(hostId), uuid)
      await steps.exec()
    })
  }

  #find({ hostId, uuid }: { hostId: string; uuid: string }): Guest | undefined {
    return this.view.findState(hostId)?.guests.get(uuid)?.guest
  }

  #key(hostId: string): string {
    return this.store.key('shown-guests', hostId)
  }
}

function encode(guest: Guest): string {
  return Buffer.from(Guest.encode(guest).finish()).toString('base64')
}
