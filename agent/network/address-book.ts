import type { Logger } from 'pino'
import { asStep } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { listHostAddresses, readDefaultRoutes } from '../host/net/addresses.js'
import { Ip } from '../host/net/ip.js'
import { findIpv6Addresses } from '../host/net/ipv6-addresses.js'
import type { Database } from '../state/database.js'
import type { AddressOrder } from './addresses/pools.js'
import type { AddressBook, GuestNetwork } from './contract.js'
import { Drift } from './drift.js'
import { Mutex } from '../../shared/async/mutex.js'
import { KnownGuests } from './known-guests.js'
import { ifbPattern } from './shaping/plan.js'
import { ContestedAddresses } from './addresses/contested.js'
import { kernelFacts } from './addresses/host-facts.js'
import { HostIpv4 } from './addresses/host-ipv4.js'
import { HostIpv6 } from './addresses/host-ipv6.js'
import { markOf } from './addresses/mark.js'
import type { GuestIpv6, Ipv6HostPlace, PlacedIpv4 } from './addresses/plan-host.js'
import { describeChanges, describeMissing, findSource, type Ipv6Plan } from './addresses/plan-ipv6.js'
import { describeUnserved, planPoolWarnings } from './addresses/plan-warnings.js'
import type { Ipv6Prefix, PoolAddress } from './addresses/pool.js'
import { AddressPools } from './addresses/pools.js'
import type { SharedRange } from './addresses/shared-pools.js'
import { readMappedAddresses, readPool, readPrefixes } from './addresses/address-tables.js'

/**
 * Interval in ms at which the agent, while no guest has an address, searches for addresses left by an earlier agent.
 */
const emptyMs = 20_000

export interface AddressBookOptions {
  readonly db: Database
  readonly config: AgentConfig['network']
  readonly log: Logger
  /** Sets a guest's IPv6 addresses inside the guest and removes those in `gone`. Does nothing for a stopped guest. */
  readonly assignInside: (guest: GuestNetwork, gone: readonly string[]) => Promise<void>
}

/** Puts guests' public IPv4 and IPv6 addresses on the host (see `AddressBook`). Calls run one after another. */
export class HostAddressBook implements AddressBook {
  readonly #ip = new Ip()
  readonly #ipv4: HostIpv4
  readonly #ipv6: HostIpv6
  readonly #contested: ContestedAddresses
  readonly #pools: AddressPools
  readonly #known = new KnownGuests()
  /** Decides when to search for addresses left by an earlier agent. Only used while no guest has an address. */
  readonly #drift = new Drift(emptyMs)
  readonly #mutex = new Mutex()

  /** @throws {BerthError} `invalid_field` if the configured private network or a shared pool is invalid */
  constructor(private readonly options: AddressBookOptions) {
    const { db, config, log } = options
    const mark = markOf(config.table)
    this.#pools = new AddressPools({ db, config })
    this.#ipv4 = new HostIpv4(this.#ip, mark, log)
    this.#ipv6 = new HostIpv6(this.#ip, ipv6PlaceOf(config), log)
    this.#contested = new ContestedAddresses({ log })
  }

  choose(order: AddressOrder): ReturnType<AddressPools['choose']> {
    return this.#pools.choose(order)
  }

  keep(addresses: readonly string[], others: readonly SharedRange[]): PoolAddress[] {
    return this.#pools.keep(addresses, others)
  }

  keepIpv6(addresses: readonly string[], others: readonly SharedRange[]): string[] {
    return this.#pools.keepIpv6(addresses, others)
  }

  listShared(addresses: readonly string[]): string[] {
    return this.#pools.listShared(addresses)
  }

  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan {
    return this.#pools.readIpv6(configured, held)
  }

  get warnings(): readonly string[] {
    const { db } = this.options
    const routes = readDefaultRoutes()
    return [
      ...planPoolWarnings(readPool(db), this.#ipv4.missing, routes.ipv4),
      ...describeChanges(this.readIpv6(), routes.ipv6),
      ...describeMissing(readPrefixes(db), kernelFacts.listInterfaces()),
      ...describeUnserved(readMappedAddresses(db), () => [...listHostAddresses('ipv4'), ...listHostAddresses('ipv6')]),
      ...this.#contested.warnings,
    ]
  }

  ensure(journaled: readonly GuestNetwork[]): Promise<string[]> {
    return this.#mutex.run(
      asStep('set up the addresses of guests', async () => {
        const guests = this.#known.replace(journaled).filter(hasAddresses)
        if (guests.length > 0) this.#drift.note()
        if (guests.length === 0) return this.#drift.isDue ? this.#drift.look(() => this.#ensureBoth([])) : []
        return this.#ensureBoth(guests)
      }),
    )
  }

  /** Sets guests' addresses on the host. If IPv4 or IPv6 fails, the other is still set. @throws the first failure */
  async #ensureBoth(guests: readonly GuestNetwork[]): Promise<string[]> {
    const places = this.#placesOf(guests)
    const results = await Promise.allSettled([
      this.#ipv4.ensure(places),
      // Skips IPv6 if the kernel does not support it.
      findIpv6Addresses() ? this.#ipv6.ensure(this.#routesOf(guests)) : [],
    ])
    this.#contested.keep(places)
    return results.flatMap((result) => {
      if (result.status === 'rejected') throw result.reason
      return result.value
    })
  }

  async attach(guest: GuestNetwork): Promise<void> {
    const gone = await this.#mutex.run(
      asStep(`set up the addresses of the guest at ${guest.device}`, async () => {
        const lost = this.#findLost(guest)
        this.#known.attach(guest)
        this.#drift.note()
        await this.#remove(lost)
        const places = this.#placesOf([guest])
        await this.#ipv4.add(places)
        await this.#ipv6.add(this.#routesOf([guest]))
        this.#contested.ask(places)
        return lost.ipv6Addresses
      }),
    )
    if (guest.ipv6Addresses.length + gone.length > 0) await this.#assignInside(guest, gone)
  }

  detach(guest: GuestNetwork): Promise<void> {
    return this.#mutex.run(
      asStep(`remove the addresses of the guest at ${guest.device}`, async () => {
        this.#known.detach(guest.uuid)
        await this.#remove(guest)
      }),
    )
  }

  close(): Promise<void> {
    return this.#mutex.run(
      asStep('stop managing the addresses of guests', async () => {
        this.#ipv4.close()
        this.#ipv6.close()
        this.#contested.close()
        await this.#ip.close()
      }),
    )
  }

  /** Sets addresses inside the guest. A failure is only logged, because the guest's next start sets the addresses. */
  async #assignInside(guest: GuestNetwork, gone: readonly string[]): Promise<void> {
    try {
      await this.options.assignInside(guest, gone)
    } catch (err) {
      this.options.log.warn(
        { err, guest: guest.uuid },
        'the IPv6 addresses could not be set inside the guest; its next start sets them',
      )
    }
  }

  async #remove(guest: GuestNetwork): Promise<void> {
    this.#contested.forget(guest.publicIpv4s)
    await this.#ipv6.remove(this.#routesOf([guest]))
    await this.#ipv4.remove(guest.publicIpv4s)
  }

  /** Returns the guest with only those public IPv4 and IPv6 addresses that it has just lost. */
  #findLost(guest: GuestNetwork): GuestNetwork {
    const before = this.#known.find(guest.uuid)
    const without = (had: readonly string[] = [], has: readonly string[]): string[] =>
      had.filter((address) => !has.includes(address))
    return {
      ...guest,
      publicIpv4s: without(before?.publicIpv4s, guest.publicIpv4s),
      ipv6Addresses: without(before?.ipv6Addresses, guest.ipv6Addresses),
    }
  }

  /**
   * Looks up the interface of each guest's public address in the pool. Leaves out addresses that are not in the pool.
   */
  #placesOf(guests: readonly GuestNetwork[]): PlacedIpv4[] {
    const wanted = guests.flatMap(({ publicIpv4s }) => publicIpv4s)
    if (wanted.length === 0) return []
    const pool = new Map(readPool(this.options.db).map((item) => [item.address, item.interface]))
    return wanted.flatMap((address) => {
      const device = pool.get(address)
      return device === undefined ? [] : [{ address, interface: device }]
    })
  }

  #routesOf(guests: readonly GuestNetwork[]): GuestIpv6[] {
    if (guests.every(({ ipv6Addresses }) => ipv6Addresses.length === 0)) return []
    if (!findIpv6Addresses()) return [] // the kernel has no IPv6: guests start without IPv6 addresses
    const { sources } = this.readIpv6()
    return guests.flatMap(({ mac, ipv6Addresses }) =>
      ipv6Addresses.map((address) => {
        const source = findSource(sources, address)
        return { address, mac, proxyOn: source?.mode === 'proxied' ? source.prefix.interface : '' }
      }),
    )
  }
}

function hasAddresses({ publicIpv4s, ipv6Addresses }: GuestNetwork): boolean {
  return publicIpv4s.length + ipv6Addresses.length > 0
}

function ipv6PlaceOf({ bridge, table, interface_prefix: prefix }: AgentConfig['network']): Ipv6HostPlace {
  const [pairs, ifbs] = [new RegExp(`^${prefix}\\d{1,10}$`), ifbPattern(prefix)]
  return { bridge, mark: markOf(table), isGuestDevice: (name) => pairs.test(name) || ifbs.test(name) }
}

/** Removes all addresses with this agent's mark from the host. Does not need the journal. Used by `down --purge`. */
export async function removeHostAddresses(config: AgentConfig['network'], log: Logger): Promise<void> {
  const ip = new Ip()
  const mark = markOf(config.table)
  try {
    await new HostIpv4(ip, mark, log).removeAll()
    if (findIpv6Addresses()) await new HostIpv6(ip, ipv6PlaceOf(config), log).removeAll()
  } finally {
    await ip.close()
  }
}
