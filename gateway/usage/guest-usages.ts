import { eachLimited } from '../../shared/async/each-limited.js'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import type { GuestUsage } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Fleet } from '../fleet/contract.js'
import { answerWithin } from './answer-within.js'

type HostUsages = ReadonlyMap<string, GuestUsage>

/** Age in ms from which the usages of a host are read again. */
const freshMs = 10_000
/** Age in ms from which usages count as unknown, for example because the host went offline. */
const validMs = 60_000
const parallel = 16
/** Maximum time in ms that a caller waits. Usages of hosts that answer later are unknown. */
const patienceMs = 3000

/** Reads and caches the resource usage of guests, with one call per host for all its guests. */
export class GuestUsages {
  readonly #known = new Map<string, { usages: HostUsages; atMs: number }>()
  readonly #reading = new KeyedSingleFlight<string>()

  constructor(private readonly fleet: Pick<Fleet, 'agent' | 'view'>) {}

  /** Returns a function that finds the usage of a guest on one of these hosts, by host id and uuid. Never rejects. */
  async read(hostIds: ReadonlySet<string>): Promise<(hostId: string, uuid: string) => GuestUsage | undefined> {
    const stale = [...hostIds].filter((id) => this.#ageMs(id) >= freshMs && this.#canAnswer(id))
    const reading = eachLimited(stale, { limit: parallel }, (id) => this.#reading.run(id, () => this.#readOne(id)))
    await answerWithin(patienceMs, reading)
    return (hostId, uuid) => (this.#ageMs(hostId) < validMs ? this.#known.get(hostId)?.usages.get(uuid) : undefined)
  }

  #ageMs(hostId: string): number {
    return performance.now() - (this.#known.get(hostId)?.atMs ?? -Infinity)
  }

  #canAnswer(hostId: string): boolean {
    const host = this.fleet.view.findHost(hostId)
    return host?.state === 'online' && Boolean(host.description?.features.includes('list-usage'))
  }

  async #readOne(hostId: string): Promise<void> {
    try {
      const { guests } = await this.fleet.agent(hostId).guests.listGuestUsage({})
      this.#known.set(hostId, { usages: new Map(guests.map((one) => [one.uuid, one])), atMs: performance.now() })
    } catch {
      this.#dropOld(hostId) // the host went offline or is too slow: its usages become unknown
    }
  }

  #dropOld(hostId: string): void {
    if (this.#ageMs(hostId) >= validMs) this.#known.delete(hostId)
  }
}
