import type { Logger } from 'pino'
import { findIpv4Owner } from '../../host/arping.js'
import { fewAtOnce } from './few-at-once.js'
import type { PlacedIpv4 } from './plan-host.js'

export interface ContestedOptions {
  readonly log: Logger
  /** @returns the MAC that answered; '' for none. Default: asks the segment. */
  readonly findOwner?: (device: string, address: string, signal: AbortSignal) => Promise<string>
  /** Milliseconds; default: a clock that is never set. */
  readonly now?: () => number
}

const againMs = 60_000

/**
 * Public IPv4 addresses that another machine on the segment has, too: asked for in the background, nobody waits. (Of IPv6
 * nothing can be learnt so: what comes from outside in a guest's name is dropped, an advertisement as well.)
 */
export class ContestedAddresses {
  readonly #ended = new AbortController()
  /** When each was asked for, and the MAC that answered; '' for none. */
  readonly #asked = new Map<string, { atMs: number; device: string; mac: string }>()

  constructor(private readonly options: ContestedOptions) {}

  /** What a person should look at. */
  get warnings(): string[] {
    return [...this.#asked]
      .filter(([, { mac }]) => mac !== '')
      .map(
        ([address, { device, mac }]) =>
          `${address} is a container's, but ${mac} on ${device} answers for it, too`,
      )
  }

  forget(addresses: readonly string[]): void {
    for (const address of addresses) this.#asked.delete(address)
  }

  /** All there are: others are forgotten. */
  keep(items: readonly PlacedIpv4[]): void {
    const kept = new Set(items.map(({ address }) => address))
    this.forget([...this.#asked.keys()].filter((address) => !kept.has(address)))
    this.ask(items)
  }

  /** Those that were not asked for yet, and again those that somebody answered for. */
  ask(items: readonly PlacedIpv4[]): void {
    const { now = () => performance.now() } = this.options
    const atMs = now()
    const due = items.filter(({ address }) => {
      const last = this.#asked.get(address)
      return !last || (last.mac !== '' && atMs - last.atMs >= againMs)
    })
    for (const { address, interface: device } of due)
      this.#asked.set(address, { atMs, device, mac: this.#asked.get(address)?.mac ?? '' })
    void fewAtOnce(due, this.#ended.signal, (item) => this.#askFor(item))
  }

  /** Gives up what is being asked. */
  close(): void {
    this.#ended.abort()
  }

  async #askFor({ address, interface: device }: PlacedIpv4): Promise<void> {
    const { log, findOwner = findIpv4Owner } = this.options
    try {
      const mac = await findOwner(device, address, this.#ended.signal)
      const asked = this.#asked.get(address) // none: it has gone meanwhile
      if (asked) asked.mac = mac
    } catch (err) {
      log.debug({ err, address, device }, 'nobody could be asked for the address')
    }
  }
}
