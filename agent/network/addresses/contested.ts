import type { Logger } from 'pino'
import { findIpv4Owner } from '../../host/arping.js'
import { probeNeighbours } from './neighbour-probe.js'
import type { PlacedIpv4 } from './plan-host.js'

/** A guest's address, of either family, and the host's interface on whose segment it is served. */
export type ServedAddress = PlacedIpv4

const atOnce = 8
const againMs = 60_000

/** Guests' addresses that another machine on the segment has, too: asked for in the background, nobody waits. */
export class ContestedAddresses {
  readonly #ended = new AbortController()
  /** When each was asked for, and the MAC that answered; '' for none. */
  readonly #asked = new Map<string, { atMs: number; item: ServedAddress; mac: string }>()
  readonly #waiting: ServedAddress[] = []
  #working = 0

  constructor(private readonly log: Logger) {}

  /** What a person should look at. */
  get warnings(): string[] {
    return [...this.#asked.values()]
      .filter(({ mac }) => mac !== '')
      .map(
        ({ item, mac }) =>
          `${item.address} is a container's, but ${mac} on ${item.interface} answers for it, too`,
      )
  }

  forget(addresses: readonly string[]): void {
    for (const address of addresses) this.#asked.delete(address)
  }

  /** All there are: others are forgotten. */
  keep(items: readonly ServedAddress[]): void {
    const kept = new Set(items.map(({ address }) => address))
    this.forget([...this.#asked.keys()].filter((address) => !kept.has(address)))
    this.ask(items)
  }

  /** Those that were not asked for yet, and again those that somebody answered for. */
  ask(items: readonly ServedAddress[]): void {
    const atMs = performance.now()
    for (const item of items) {
      const last = this.#asked.get(item.address)
      if (last && (last.mac === '' || atMs - last.atMs < againMs)) continue
      this.#asked.set(item.address, { atMs, item, mac: last?.mac ?? '' })
      this.#waiting.push(item)
    }
    while (this.#waiting.length > 0 && this.#working < atOnce) void this.#work()
  }

  /** Gives up what is being asked. */
  close(): void {
    this.#ended.abort()
  }

  async #work(): Promise<void> {
    this.#working++
    for (let item = this.#waiting.shift(); item && !this.#ended.signal.aborted; item = this.#waiting.shift())
      await this.#askFor(item)
    this.#working--
  }

  async #askFor(item: ServedAddress): Promise<void> {
    try {
      const mac = await this.#findOwner(item)
      const asked = this.#asked.get(item.address) // none: it has gone meanwhile
      if (asked) asked.mac = mac
    } catch (err) {
      this.log.debug({ err, ...item }, 'nobody could be asked for the address')
    }
  }

  async #findOwner({ address, interface: device }: ServedAddress): Promise<string> {
    if (!address.includes(':')) return findIpv4Owner(device, address, this.#ended.signal)
    return (await probeNeighbours(device, [address])).get(address) ?? ''
  }
}
