import type { Logger } from 'pino'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Store } from '../store/store.js'

const flushEveryMs = 1000
/** Guests per write: encoding more at once would block other requests. */
const batch = 100

/**
 * Last known state of each host's guests, in the store, so that a gateway that starts while a host is offline shows its
 * guests as unknown instead of not at all. Changes are written at most once a second, a new guest at once.
 *
 * `shown-guests:<host id>`: hash, uuid → Guest as protobuf in base64.
 */
export class GuestCache {
  readonly #changed = new Map<string, Set<string>>()
  #timer: NodeJS.Timeout | undefined

  constructor(
    private readonly store: Store,
    private readonly log: Logger,
    private readonly findGuest: (hostId: string, uuid: string) => Guest | undefined,
  ) {}

  start(): void {
    this.#timer = setInterval(() => void this.flush(), flushEveryMs)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  note(hostId: string, uuid: string): void {
    const uuids = this.#changed.get(hostId)
    if (uuids) uuids.add(uuid)
    else this.#changed.set(hostId, new Set([uuid]))
  }

  /** Writes a new guest; durable when it returns. After a failure it is written later, like changes. */
  async keep(hostId: string, guest: Guest): Promise<void> {
    try {
      await this.store.run('keep a new guest', (client) => client.hSet(this.#key(hostId), guest.uuid, encode(guest)))
    } catch (error) {
      this.log.debug({ host: hostId, guest: guest.uuid, error }, 'new guest not stored yet')
    }
    this.note(hostId, guest.uuid)
  }

  async load(hostId: string): Promise<Guest[]> {
    const all = await this.store.run('read known guests', (client) => client.hVals(this.#key(hostId)))
    return all.map((text) => Guest.decode(Buffer.from(text, 'base64')))
  }

  async forget(hostId: string): Promise<void> {
    this.#changed.delete(hostId)
    await this.store.run('forget known guests', (client) => client.del(this.#key(hostId)))
  }

  async flush(): Promise<void> {
    const left = [...this.#changed].flatMap(([hostId, uuids]) => [...uuids].map((uuid) => ({ hostId, uuid })))
    this.#changed.clear()
    try {
      for (; left.length > 0; left.splice(0, batch)) await this.#write(left.slice(0, batch))
    } catch (error) {
      this.log.debug({ error }, 'known guests not stored yet')
      for (const { hostId, uuid } of left) this.note(hostId, uuid)
    }
  }

  /** One transaction for all hosts, as each one waits for the store's disk. */
  async #write(changed: readonly { hostId: string; uuid: string }[]): Promise<void> {
    const known = changed.map(({ hostId, uuid }) => ({ hostId, uuid, guest: this.findGuest(hostId, uuid) }))
    await this.store.run('keep known guests', async (client) => {
      const steps = client.multi()
      for (const { hostId, uuid, guest } of known)
        if (guest) steps.hSet(this.#key(hostId), uuid, encode(guest))
        else steps.hDel(this.#key(hostId), uuid)
      await steps.exec()
    })
  }

  #key(hostId: string): string {
    return this.store.key('shown-guests', hostId)
  }
}

function encode(guest: Guest): string {
  return Buffer.from(Guest.encode(guest).finish()).toString('base64')
}
