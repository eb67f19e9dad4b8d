import type { AgentConfig } from '../../config.js'
import type { Database } from '../../state/database.js'
import { allocateIpv6s, allocatePublicIpv4s, isUnknown } from './allocation.js'
import { holdPrefixes, isUsed } from './held-prefixes.js'
import { kernelFacts, readUplinks, type HostFacts } from './host-facts.js'
import { formatIpv6, parseIpv6, parseSubnet6, type Ipv6Network } from './ipv6.js'
import { availableSources, planIpv6, type Ipv6Plan } from './plan-ipv6.js'
import type { Ipv6Prefix, PoolAddress } from './pool.js'
import { readHeldPrefixes, readPrefixes } from './address-tables.js'
import {
  isShared,
  parseSharedPools,
  planKept,
  planKeptIpv6,
  type SharedPool,
  type SharedRange,
} from './shared-pools.js'

/** Addresses that a guest requests from the host's pools. */
export interface AddressOrder {
  /** Number of addresses to choose in addition to the explicit ones. */
  readonly ipv4Count: number
  readonly publicIpv4s: readonly string[]
  readonly ipv6Count: number
  readonly ipv6Addresses: readonly string[]
}

export interface AddressPoolsOptions {
  readonly db: Database
  readonly config: AgentConfig['network']
  /** Facts about the host. Default: read from the kernel. */
  readonly facts?: HostFacts
}

/** Chooses guests' addresses from the pools in the journal and the host's current state. Starts no processes. */
export class AddressPools {
  readonly #subnet6: Ipv6Network
  readonly #facts: HostFacts
  readonly #shared: readonly SharedPool[]

  /** @throws {BerthError} `invalid_field` if the configured private network or a shared pool is invalid */
  constructor(private readonly options: AddressPoolsOptions) {
    this.#subnet6 = parseSubnet6(options.config.subnet6)
    this.#facts = options.facts ?? kernelFacts
    this.#shared = parseSharedPools(options.config.shared_pools)
  }

  /** Chooses addresses for a guest from the pools (described at `Network.choose`). */
  choose({ ipv4Count, publicIpv4s, ipv6Count, ipv6Addresses }: AddressOrder): {
    publicIpv4s: string[]
    ipv6Addresses: string[]
  } {
    const { db } = this.options
    const plan = this.readIpv6()
    const chosen = {
      publicIpv4s: allocatePublicIpv4s(db, { count: ipv4Count, addresses: publicIpv4s }),
      ipv6Addresses: allocateIpv6s(db, {
        ...plan,
        sources: availableSources(plan.sources),
        count: ipv6Count,
        addresses: ipv6Addresses,
        reserved: this.#readReserved(plan),
      }),
    }
    holdPrefixes(db, plan, chosen.ipv6Addresses)
    return chosen
  }

  /** Finds the addresses that an arriving guest keeps (described at `Network.keep`). */
  keep(addresses: readonly string[], others: readonly SharedRange[]): PoolAddress[] {
    if (this.#shared.length === 0 || others.length === 0) return []
    const { db, config } = this.options
    const own = new Set(this.#facts.listIpv4().map(({ address }) => address))
    return planKept(addresses, {
      own: this.#shared,
      others,
      uplink: readUplinks(this.#facts, config.uplinks).ipv4?.interface ?? '',
      interfaces: new Set(this.#facts.listInterfaces()),
      isFree: (address) => !own.has(address) && isUnknown(db, address),
    })
  }

  /** Finds the IPv6 addresses that an arriving guest keeps (described at `Network.keepIpv6`). */
  keepIpv6(addresses: readonly string[], others: readonly SharedRange[]): string[] {
    if (this.#shared.length === 0 || others.length === 0 || addresses.length === 0) return []
    const { db, config } = this.options
    const plan = this.readIpv6()
    const reserved = this.#readReserved(plan)
    return planKeptIpv6(addresses, {
      own: this.#shared,
      others,
      uplink: readUplinks(this.#facts, config.uplinks).ipv6?.interface ?? '',
      sources: availableSources(plan.sources),
      isFree: (address) => !reserved.has(address) && isUnknown(db, address),
    })
  }

  listShared(addresses: readonly string[]): string[] {
    return addresses.filter((address) => isShared(this.#shared, address))
  }

  /** Plans how guests get IPv6 now (described at `Network.readIpv6`). */
  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan {
    const { db, config } = this.options
    return planIpv6({
      configured: configured ?? readPrefixes(db),
      held: held ?? readHeldPrefixes(db),
      isUsed: (prefix) => isUsed(db, prefix),
      addresses: this.#facts.listIpv6(),
      interfaces: this.#facts.listInterfaces(),
      defaultRoute: this.#facts.readDefaultRoutes().ipv6,
      uplink: readUplinks(this.#facts, config.uplinks).ipv6,
      subnet6: this.#subnet6,
      bridge: config.bridge,
    })
  }

  /** Reads the addresses that guests must not get: those of the host itself and of routers. */
  #readReserved({ sources }: Ipv6Plan): Set<string> {
    const own = (this.#facts.listIpv6() ?? []).map(({ address }) => address)
    const routers = [this.#facts.readDefaultRoutes().ipv6?.gateway, ...sources.map(({ prefix }) => prefix.gateway)]
    const named = sources.map(({ prefix }) => prefix.address)
    return new Set(
      [...own, ...routers, ...named].flatMap((text) => {
        const value = text ? parseIpv6(text) : undefined
        return value === undefined ? [] : [formatIpv6(value)]
      }),
    )
  }
}
