import type { Logger } from 'pino'
import { eachLimited } from '../../../shared/async/each-limited.js'
import { findIpv4Owner } from '../../host/net/arping.js'
import type { PlacedIpv4 } from './plan-host.js'

export interface ContestedOptions {
  readonly log: Logger
  /** Returns the MAC that answered for the address, or '' if none did. Default: sends an ARP request. */
  readonly findOwner?: (device: string, address: string, signal: AbortSignal) => Promise<string>
  /** Returns monotonic time in ms. Default: performance.now. */
  readonly now?: () => number
}

const againMs = 60_000
/** Maximum number of parallel probes. */
const parallel = 8

/**
 * Finds guests' public IPv4 addresses for which another computer on the segment answers. Runs in the background. IPv6
 * is not checked, because the filter drops such an answer as a packet from outside with a guest's source address.
 */
export class ContestedAddresses {
  readonly #ended = new AbortController()
  /** Last probe of each address: its time, its interface, and the MAC that answered ('' if there was no answer). */
  readonly #asked = new Map<string, { atMs: number; device: string; mac: string }>()

  constructor(private readonly options: ContestedOptions) {}

  /** Returns one warning for each address that another computer also uses. */
  get warnings(): string[] {
    return [...this.#asked]
      .filter(([, { mac }]) => mac !== '')
      .map(
        ([address, { device, mac }]) =>
          `${address} is assigned to a container, but ${mac} on ${device} also answers for it`,
      )
  }

  forget(addresses: readonly string[]): void {
    for (const address of addresses) this.#asked.delete(address)
  }

  /** Forgets all addresses that are not in `items`. Then passes `items` to `ask`. */
  keep(items: readonly PlacedIpv4[]): void {
    const kept = new Set(items.map(({ address }) => address))
    this.forget([...this.#asked.keys()].filter((address) => !kept.has(address)))
    this.ask(items)
  }

  /** Probes new addresses and, at most once a minute, the addresses that another computer uses. */
  ask(items: readonly PlacedIpv4[]): void {
    const { now = () => performance.now() } = this.options
    const atMs = now()
    const due = items.filter(({ address }) => {
      const last = this.#asked.get(address)
      return !last || (last.mac !== '' && atMs - last.atMs >= againMs)
    })
    for (const { address, interface: device } of due)
      this.#asked.set(address, { atMs, device, mac: this.#asked.get(address)?.mac ?? '' })
    void eachLimited(due, { limit: parallel, signal: this.#ended.signal }, (item) => this.#askFor(item))
  }

  close(): void {
    this.#ended.abort()
  }

  async #askFor({ address, interface: device }: PlacedIpv4): Promise<void> {
    const { log, findOwner = findIpv4Owner } = this.options
    try {
      const mac = await findOwner(device, address, this.#ended.signal)
      const asked = this.#asked.get(address) // undefined if `keep` has removed the address in the meantime
      if (asked) asked.mac = mac
    } catch (err) {
      log.debug({ err, address, device }, 'no ARP request could be sent for the address')
    }
  }
}
