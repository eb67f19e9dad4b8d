import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { Mutex } from '../../../shared/async/mutex.js'
import { announceIpv6 } from '../../host/net/neighbour-advertisement.js'
import { planIpv6Announcements, type GuestIpv6 } from './plan-host.js'

export interface Ipv6AnnouncementsOptions {
  readonly log: Logger
  /** Announces addresses once. Default: sends neighbour advertisements. */
  readonly announce?: typeof announceIpv6
  /** Time in ms between the two announcements of an address. Default: 1000. */
  readonly pauseMs?: number
}

/** Number of addresses that are announced in one go. This takes about half a second. */
const batchSize = 100

/**
 * Announces guests' IPv6 addresses when the host begins to answer for them. Runs in the background. Announces each
 * address twice, because the first packet can be lost. Never announces an address that `forget` has removed, because
 * another host can have it now.
 */
export class Ipv6Announcements {
  readonly #ended = new AbortController()
  readonly #sending = new Mutex()
  /** Interfaces on which the host answers for guests' addresses, by address. */
  #proxied = new Map<string, string>()

  constructor(private readonly options: Ipv6AnnouncementsOptions) {}

  /** Replaces all known addresses by those for which the host already answers. They are not announced again. */
  replace(known: readonly GuestIpv6[]): void {
    this.#proxied = new Map(known.map(({ address, proxyOn }) => [address, proxyOn]))
  }

  /** Announces those of the addresses for which the host did not answer until now. */
  add(want: readonly GuestIpv6[]): void {
    const announced = planIpv6Announcements(want, this.#proxied)
    for (const [device, addresses] of announced) for (const address of addresses) this.#proxied.set(address, device)
    for (const [device, addresses] of announced) void this.#announceTwice(device, addresses)
  }

  /** Resolves when no announcement of these addresses is sent any more. */
  async forget(addresses: readonly string[]): Promise<void> {
    for (const address of addresses) this.#proxied.delete(address)
    await this.#sending.settled()
  }

  close(): void {
    this.#ended.abort()
  }

  async #announceTwice(device: string, addresses: readonly string[]): Promise<void> {
    const { signal } = this.#ended
    await this.#announce(device, addresses)
    await delay(this.options.pauseMs ?? 1000, undefined, { signal }).catch(() => undefined)
    if (!signal.aborted) await this.#announce(device, addresses)
  }

  /** Never rejects. */
  async #announce(device: string, addresses: readonly string[]): Promise<void> {
    for (let at = 0; at < addresses.length; at += batchSize)
      await this.#sending.run(() => this.#announceBatch(device, addresses.slice(at, at + batchSize)))
  }

  /**
   * Failures are only logged, because routers find the new host within a minute (neighbour unreachability detection,
   * RFC 4861, 7.3).
   */
  async #announceBatch(device: string, batch: readonly string[]): Promise<void> {
    const { log, announce = announceIpv6 } = this.options
    const present = batch.filter((address) => this.#proxied.get(address) === device)
    if (present.length === 0) return
    try {
      await announce(device, present, this.#ended.signal)
    } catch (err) {
      log.debug({ err, device, addresses: present }, 'could not announce IPv6 addresses to the network')
    }
  }
}
