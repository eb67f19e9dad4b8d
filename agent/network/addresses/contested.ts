import type { Logger } from 'pino'
import { findIpv4Owner } from '../../host/arping.js'
import { fewAtOnce } from './few-at-once.js'
import { probeNeighbours } from './neighbour-probe.js'
import type { PlacedIpv4 } from './plan-host.js'

/** A guest's address, of either family, and the host's interface on whose segment it is served. */
export type ServedAddress = PlacedIpv4

/** @returns the MAC that answered, '' for none, by address */
type FindOwners = (
  items: readonly ServedAddress[],
  signal: AbortSignal,
) => Promise<ReadonlyMap<string, string>>

export interface ContestedOptions {
  readonly log: Logger
  /** Asks for one IPv4 address, or for IPv6 ones of one interface; default: the segment. */
  readonly findOwners?: FindOwners
  /** Milliseconds; default: a clock that is never set. */
  readonly now?: () => number
}

const againMs = 60_000
/** The kernel's neighbour table holds those that are asked for together. */
const askedTogether = 64

/** Guests' addresses that another machine on the segment has, too: asked for in the background, nobody waits. */
export class ContestedAddresses {
  readonly #ended = new AbortController()
  /** When each was asked for, and the MAC that answered; '' for none. */
  readonly #asked = new Map<string, { atMs: number; item: ServedAddress; mac: string }>()
  readonly #findOwners: FindOwners
  readonly #now: () => number

  constructor(private readonly options: ContestedOptions) {
    this.#findOwners = options.findOwners ?? askSegment
    this.#now = options.now ?? (() => performance.now())
  }

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
    const atMs = this.#now()
    const due = items.filter(({ address }) => {
      const last = this.#asked.get(address)
      return !last || (last.mac !== '' && atMs - last.atMs >= againMs)
    })
    for (const item of due)
      this.#asked.set(item.address, { atMs, item, mac: this.#asked.get(item.address)?.mac ?? '' })
    void fewAtOnce(together(due), this.#ended.signal, (some) => this.#askFor(some))
  }

  /** Gives up what is being asked. */
  close(): void {
    this.#ended.abort()
  }

  async #askFor(items: readonly ServedAddress[]): Promise<void> {
    try {
      for (const [address, mac] of await this.#findOwners(items, this.#ended.signal)) {
        const asked = this.#asked.get(address) // none: it has gone meanwhile
        if (asked) asked.mac = mac
      }
    } catch (err) {
      this.options.log.debug({ err, items }, 'nobody could be asked for addresses')
    }
  }
}

/** arping asks for one address; the kernel for many of IPv6 at once. */
function together(items: readonly ServedAddress[]): ServedAddress[][] {
  const isIpv6 = ({ address }: ServedAddress): boolean => address.includes(':')
  const ipv6 = items.filter(isIpv6)
  const groups = [...new Set(ipv6.map((item) => item.interface))].flatMap((device) =>
    chunksOf(ipv6.filter((item) => item.interface === device)),
  )
  return [...items.filter((item) => !isIpv6(item)).map((item) => [item]), ...groups]
}

function chunksOf(items: readonly ServedAddress[]): ServedAddress[][] {
  const count = Math.ceil(items.length / askedTogether)
  return Array.from({ length: count }, (_, at) => items.slice(at * askedTogether, (at + 1) * askedTogether))
}

async function askSegment(
  items: readonly ServedAddress[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const [{ address, interface: device } = { address: '', interface: '' }] = items
  if (address.includes(':'))
    return probeNeighbours(
      device,
      items.map((item) => item.address),
    )
  return new Map([[address, await findIpv4Owner(device, address, signal)]])
}
