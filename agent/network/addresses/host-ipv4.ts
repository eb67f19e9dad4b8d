import type { Logger } from 'pino'
import { eachLimited } from '../../../shared/async/each-limited.js'
import { listIpv4Addresses } from '../../host/net/addresses.js'
import { announceIpv4 } from '../../host/net/arping.js'
import type { Ip } from '../../host/net/ip.js'
import type { HostMark } from './mark.js'
import { runEach } from './run-each.js'
import { planHostIpv4, planAddressRemoval, type ObservedIpv4, type PlacedIpv4 } from './plan-host.js'

/** The fields of `ip -json address show` that the agent uses. */
export interface ObservedInterface {
  readonly ifname: string
  readonly addr_info: readonly {
    readonly family: string
    readonly local?: string
    readonly prefixlen?: number
    readonly metric?: number
  }[]
}

/** Maximum number of parallel announcements. */
const parallel = 8

/** Maintains guests' public IPv4 addresses on the host's interfaces. */
export class HostIpv4 {
  readonly #ended = new AbortController()
  #missing: readonly string[] = []

  constructor(
    private readonly ip: Ip,
    private readonly mark: HostMark,
    private readonly log: Logger,
  ) {}

  /** Interfaces that the pool names but the host does not have. */
  get missing(): readonly string[] {
    return this.#missing
  }

  /** Adds these addresses to the host, and removes all others that this agent added. @returns the changes */
  async ensure(want: readonly PlacedIpv4[]): Promise<string[]> {
    const all = listIpv4Addresses()
    const wanted = new Set(want.map(({ address }) => address))
    const suspects = listCandidates().filter(({ address }) => !wanted.has(address))
    const read = await this.#read([...want, ...suspects])
    this.#missing = read.missing
    return this.#apply(
      want.filter((item) => !read.missing.includes(item.interface)),
      merge(read.found, all),
    )
  }

  /**
   * Adds these addresses and leaves all others unchanged. Skips addresses of a missing interface; `ensure` adds them
   * when the interface exists.
   */
  async add(want: readonly PlacedIpv4[]): Promise<void> {
    if (want.length === 0) return
    const wanted = new Set(want.map(({ address }) => address))
    const { found, missing } = await this.#read(want)
    if (missing.length > 0)
      this.log.warn({ missing }, 'public addresses are not added to the host, because their interfaces do not exist')
    await this.#apply(
      want.filter((item) => !missing.includes(item.interface)),
      merge(found, listIpv4Addresses()).filter(({ address }) => wanted.has(address)),
    )
  }

  /** Removes these addresses from the host, except those that other programs added. */
  async remove(addresses: readonly string[]): Promise<void> {
    if (addresses.length === 0) return
    const have = listCandidates().filter(({ address }) => addresses.includes(address))
    const { found } = await this.#read(have)
    const ours = found.filter(({ address, isOurs }) => isOurs && addresses.includes(address))
    await this.ip.remove(ours.map(planAddressRemoval))
  }

  /** Removes every address with this agent's mark, even if the journal does not contain it. */
  async removeAll(): Promise<void> {
    await this.remove(listCandidates().map(({ address }) => address))
  }

  close(): void {
    this.#ended.abort()
  }

  async #apply(want: readonly PlacedIpv4[], have: readonly ObservedIpv4[]): Promise<string[]> {
    const { commands, added } = planHostIpv4(want, have, this.mark)
    await runEach(this.ip, commands).finally(() => void this.#announce(added))
    return commands.map((command) => `ip ${command}`)
  }

  async #read(of: readonly PlacedIpv4[]): Promise<{ found: ObservedIpv4[]; missing: string[] }> {
    const found: ObservedIpv4[] = []
    const missing: string[] = []
    for (const device of new Set(of.map((item) => item.interface))) {
      const shown = (await this.ip.findInterface(device)) as ObservedInterface | undefined
      if (shown) found.push(...this.#parse(shown))
      else missing.push(device)
    }
    return { found, missing }
  }

  #parse({ ifname, addr_info }: ObservedInterface): ObservedIpv4[] {
    return addr_info.flatMap(({ family, local, prefixlen, metric }) =>
      family === 'inet' && local !== undefined
        ? [{ address: local, interface: ifname, isOurs: prefixlen === 32 && metric === this.mark.metric }]
        : [],
    )
  }

  /** Announces addresses to routers. Failures are only logged, because routers learn the addresses later anyway. */
  async #announce(added: readonly PlacedIpv4[]): Promise<void> {
    const { signal } = this.#ended
    await eachLimited(added, { limit: parallel, signal }, ({ address, interface: device }) =>
      announceIpv4(device, address, signal).catch((err: unknown) =>
        this.log.debug({ err, address, device }, 'could not announce an address to the network'),
      ),
    )
  }
}

/** Lists addresses that the agent may have added. Omits the loopback's addresses, because ip.ts cannot read them. */
function listCandidates(): PlacedIpv4[] {
  return listIpv4Addresses().filter((have) => have.prefixLength === 32 && have.interface !== 'lo')
}

/** Returns `found` and, with `isOurs: false`, those items of `all` whose interface has no item in `found`. */
function merge(found: readonly ObservedIpv4[], all: readonly PlacedIpv4[]): ObservedIpv4[] {
  const read = new Set(found.map((item) => item.interface))
  const others = all.filter((item) => !read.has(item.interface))
  return [...found, ...others.map((item) => ({ address: item.address, interface: item.interface, isOurs: false }))]
}
