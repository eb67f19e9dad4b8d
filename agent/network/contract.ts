import type { Ipv6Plan } from './addresses/plan-ipv6.js'
import type { Ipv6Prefix, PoolAddress } from './addresses/pool.js'
import type { SharedRange } from './addresses/shared-pools.js'
import type { AddressOrder } from './addresses/pools.js'
import type { Firewall } from '../../shared/firewall-rules.js'

/** A guest's network settings as stored in the journal. */
export interface GuestNetwork {
  readonly uuid: string
  readonly device: string
  readonly mac: string
  readonly ipv4: string
  readonly portMappings: readonly NatMapping[]
  /** Public addresses, each mapped one-to-one to the guest. The first is the source of the guest's own connections. */
  readonly publicIpv4s: readonly string[]
  /** IPv6 addresses in canonical form (RFC 5952). */
  readonly ipv6Addresses: readonly string[]
  readonly firewall?: Firewall
  /** True if the guest is allowed to connect to port 25 of other computers. */
  readonly sendsMail?: boolean
  /** True if the guest is cut off from the network: all its packets are dropped, beginning with its first one. */
  readonly cut?: boolean
}

/** A mapped port or range of ports. The guest's range has as many ports as the host's range. */
export interface NatMapping {
  readonly protocol: 'tcp' | 'udp'
  /** Host address that the mapping answers on; empty: every local address. */
  readonly hostIp: string
  readonly hostPort: number
  /** Last port of the range. Equals `hostPort` if the range is a single port. */
  readonly hostPortEnd: number
  readonly containerPort: number
}

/** Bytes of IP packets, including headers, since counting began. Directions are as the guest sees them. */
export interface ByteCounters {
  readonly rxBytes: number
  readonly txBytes: number
}

/** A guest's interface and its rates in Mbit/s; 0 = unlimited. */
export interface GuestRates {
  readonly device: string
  readonly downMbps: number
  readonly upMbps: number
  /** True if all traffic is blocked, in both directions. */
  readonly cut?: boolean
}

/** The desired state of the host's network for a guest. */
export interface WantedNetwork extends GuestNetwork, GuestRates {}

/** Parts of a guest's network. `rates` is skipped if the guest's interface does not exist. */
export type NetworkPart = 'rules' | 'addresses' | 'rates'

/**
 * The host's network for guests. Callers pass the desired state. The network decides on the order of the steps: it adds
 * rules before it adds anything that delivers packets, and removes rules last. Every call is idempotent. By default, a
 * call concerns all parts (`NetworkPart`).
 */
export interface Network {
  /**
   * Chooses the requested number of addresses from the pools, inside the caller's transaction. The caller stores the
   * addresses.
   * @throws {BerthError} `resource_exhausted`, `address_in_use`, `invalid_field`, `unsupported`
   */
  choose(order: AddressOrder): Pick<GuestNetwork, 'publicIpv4s' | 'ipv6Addresses'>
  /**
   * Finds the public IPv4 addresses that an arriving guest keeps, because its source host and this one serve the same
   * shared pool. Changes nothing.
   * @param others shared pools of the source host
   * @returns the addresses, each with its interface on this host
   */
  keep(addresses: readonly string[], others: readonly SharedRange[]): PoolAddress[]
  /**
   * Finds the IPv6 addresses that an arriving guest keeps. Changes nothing. The caller passes the result to `choose`,
   * which accepts each of these addresses in the same transaction.
   * @param others as for `keep`
   */
  keepIpv6(addresses: readonly string[], others: readonly SharedRange[]): string[]
  /** Returns those of the addresses that are in a shared pool of this host. */
  listShared(addresses: readonly string[]): string[]
  /** Applies a guest's settings, and removes its former addresses and mappings. @param parts parts that have changed */
  attach(guest: WantedNetwork, parts?: readonly NetworkPart[]): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /** Removes a guest's public addresses from the host until the next `attach`. Rules and rates stay. Idempotent. */
  withdraw(guest: GuestNetwork): Promise<void>
  /**
   * Makes the bridge and all guests' networks match the desired state, and removes everything that belongs to no guest.
   * Pass the same array object as before if no guest has changed. Unchanged rules are then not planned again.
   * @returns the repairs, including those of earlier calls that failed
   * @throws {BerthError} the first failure. If the rules cannot be repaired, addresses and rates are not tried
   */
  ensure(guests: readonly WantedNetwork[], parts?: readonly NetworkPart[]): Promise<string[]>
  /** Reads byte counters by the guest's uuid (described at `Rules.readCounters`). */
  readCounters(): Promise<ReadonlyMap<string, ByteCounters>>
  /** Warnings about settings of the host or of other programs that harm guests or their addresses. */
  readonly warnings: readonly string[]
  /**
   * Registers a listener that should call `ensure` soon. The listener is called when another program has changed the
   * rules, and when interfaces were added or removed. For example, if a guest has rebooted by itself, its new interface
   * has no rates yet.
   */
  onDisturbed(listener: (part: 'rules' | 'rates') => void): void
  /**
   * Plans the sources of guests' IPv6 addresses. If the host has no source, the plan contains the reason.
   * @param configured prefixes set through the API; default: those in the journal
   * @param held found prefixes that guests use (addresses/held-prefixes.ts); default: those in the journal
   */
  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan
  /** Ends processes and background work; the host keeps its configuration. */
  close(): Promise<void>
}

/**
 * The part of the network that decides which packets pass: one bridge, and one nft table per family. Each call is
 * idempotent and one atomic nft transaction. Only the cost of `ensure` grows with the number of guests.
 */
export interface Rules {
  /** Creates or repairs the bridge, forwarding, and the tables with all guests' elements. @returns the repairs */
  ensure(guests: readonly GuestNetwork[]): Promise<string[]>
  attach(guest: GuestNetwork): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /**
   * Reads byte counters by the guest's uuid. Dropped packets do not count. Traffic between guests counts only if this
   * is configured. Counters survive a restart of the agent, repairs, and changes of addresses. If a value is lower than
   * before, counting has started again. The result omits guests that have no counters at the moment.
   */
  readCounters(): Promise<ReadonlyMap<string, ByteCounters>>
  /** Warnings about settings of other programs that harm guests, as of the last `ensure`. */
  readonly warnings: readonly string[]
  /** Registers a listener for changes of the tables by other programs. The listener should call `ensure` soon. */
  onForeignChange(listener: () => void): void
  /** Removes the tables and the bridge, and ends the nft and ip processes. Used by `down --purge`. */
  remove(): Promise<void>
  /** Ends the nft and ip processes; the host keeps its rules. */
  close(): Promise<void>
}

/** Guests' public IPv4 and IPv6 addresses: chooses them from the pools, and sets them on the host. */
export interface AddressBook {
  /** Chooses addresses for a guest from the pools (described at `Network.choose`). */
  choose(order: AddressOrder): Pick<GuestNetwork, 'publicIpv4s' | 'ipv6Addresses'>
  /** Finds addresses that an arriving guest keeps (described at `Network.keep`). */
  keep(addresses: readonly string[], others: readonly SharedRange[]): PoolAddress[]
  /** Finds IPv6 addresses that an arriving guest keeps (described at `Network.keepIpv6`). */
  keepIpv6(addresses: readonly string[], others: readonly SharedRange[]): string[]
  /** Returns those of the addresses that are in a shared pool of this host. */
  listShared(addresses: readonly string[]): string[]
  /** Makes the host's addresses, routes and neighbours match all guests' settings. @returns the repairs */
  ensure(guests: readonly GuestNetwork[]): Promise<string[]>
  /** Applies a guest's addresses on the host and inside a running guest. Removes former addresses. Idempotent. */
  attach(guest: GuestNetwork): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /** Warnings about interfaces and addresses that pools name but the host does not have. */
  readonly warnings: readonly string[]
  /** Plans from which networks guests get IPv6 addresses. Starts no processes (see `Network.readIpv6`). */
  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan
  /** Ends the ip process and background work; the host keeps its addresses. */
  close(): Promise<void>
}

export interface Shaper {
  /** Repairs the rates of existing interfaces, and removes rates that belong to no guest. @returns the repairs */
  ensure(guests: readonly GuestRates[]): Promise<string[]>
  /** Sets one guest's rates. Does nothing if the guest is stopped, because a stopped guest has no device. */
  apply(rates: GuestRates): Promise<void>
  remove(device: string): Promise<void>
  /** Registers a listener that is called when interfaces were added or removed. */
  onLinks(listener: () => void): void
  /** Ends the ip and tc processes. The rates stay in force. */
  close(): Promise<void>
}
