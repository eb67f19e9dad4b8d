import type { Ipv6Plan } from './addresses/plan-ipv6.js'
import type { Ipv6Prefix } from './addresses/pool.js'
import type { Firewall } from '../../shared/firewall-rules.js'

/** A guest's network as decided and journaled. */
export interface GuestNetwork {
  readonly uuid: string
  readonly device: string
  readonly mac: string
  readonly ipv4: string
  readonly portMappings: readonly NatMapping[]
  /** One-to-one; the guest's own traffic leaves with the first. */
  readonly publicIpv4s: readonly string[]
  /** In canonical form (RFC 5952). */
  readonly ipv6Addresses: readonly string[]
  readonly firewall?: Firewall
}

/** One port or a range; the guest's range is as long as the host's. */
export interface NatMapping {
  readonly protocol: 'tcp' | 'udp'
  /** Host address it answers on; empty: every local one. */
  readonly hostIp: string
  readonly hostPort: number
  /** Last of the range; `hostPort` for a single one. */
  readonly hostPortEnd: number
  readonly containerPort: number
}

/** Bytes of IP packets since counting began, headers included, as the guest sees them. */
export interface ByteCounters {
  readonly rxBytes: number
  readonly txBytes: number
}

/** A guest's bounds and its interface: Mbit/s; 0 = unlimited. */
export interface GuestRates {
  readonly device: string
  readonly downMbps: number
  readonly upMbps: number
  /** Nothing passes, in either direction. */
  readonly cut?: boolean
}

/** All that the host's network is to do for a guest. */
export interface WantedNetwork extends GuestNetwork, GuestRates {}

/** What the network does for a guest. Rates are those of its interface: without one nothing is done. */
export type NetworkPart = 'rules' | 'addresses' | 'rates'

/**
 * The host's network for guests. It is told what should be, and knows in which order that becomes true: rules stand
 * before what brings packets, and go after it. Every call is safe to repeat; what names no parts is of all.
 */
export interface Network {
  /**
   * Addresses of the pools, inside the journal's transaction: all that is ordered, or nothing. The caller stores
   * what is returned.
   * @throws {BerthError} `resource_exhausted`, `address_in_use`, `invalid_field`, `unsupported`
   */
  choose(order: AddressOrder): Pick<GuestNetwork, 'publicIpv4s' | 'ipv6Addresses'>
  /** What the host does for one guest; what the guest has no more is taken away. @param parts that changed */
  attach(guest: WantedNetwork, parts?: readonly NetworkPart[]): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /**
   * What the host does for all guests, the bridge with it; what belongs to no guest is removed. The same list again
   * costs less than another that is equal.
   * @returns what it repaired since an `ensure` last returned
   * @throws {BerthError} what the host refused first; without rules nothing else is brought
   */
  ensure(guests: readonly WantedNetwork[], parts?: readonly NetworkPart[]): Promise<string[]>
  /** By guest's uuid: see `Rules`. */
  readCounters(): Promise<ReadonlyMap<string, ByteCounters>>
  /** What of the host and of other programs' settings harms guests or their addresses. */
  readonly warnings: readonly string[]
  /**
   * Calls back when something may no longer be as it should, so that `ensure` need not wait for its turn: another
   * program changed the rules, or interfaces came or went, as when a guest reboots by itself and its new one has
   * no rates yet.
   */
  onDisturbed(listener: (part: 'rules' | 'rates') => void): void
  /**
   * How guests get IPv6 now, or why they cannot.
   * @param configured prefixes that are set; default: the journal's
   * @param held prefixes that were found and given of (addresses/held-prefixes.ts); default: the journal's
   */
  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan
  /** Ends what runs; the host keeps what it has. */
  close(): Promise<void>
}

/**
 * The part of the network that lets packets pass: one bridge, one nft table per family. Each call is one atomic nft
 * transaction and safe to repeat; nothing scales with the number of guests but `ensure`.
 */
export interface Rules {
  /** Bridge, forwarding and tables with all guests' elements; repairs what differs. Returns what it repaired. */
  ensure(guests: readonly GuestNetwork[]): Promise<string[]>
  attach(guest: GuestNetwork): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /**
   * By guest's uuid. Packets dropped are not counted; traffic between guests as configured. Counters survive an
   * agent's restart, a repair and a change of addresses; a value below an earlier one began anew. A guest that is not counted at the
   * moment is missing.
   */
  readCounters(): Promise<ReadonlyMap<string, ByteCounters>>
  /** What of other programs' settings harms guests, as last looked at by `ensure`. */
  readonly warnings: readonly string[]
  /** Calls back after another program changed the tables, so that `ensure` need not wait for its turn. */
  onForeignChange(listener: () => void): void
  /** Removes tables, bridge and pipes' processes; for `down --purge`. */
  remove(): Promise<void>
  /** Ends the pipes; the host keeps its rules. */
  close(): Promise<void>
}

/** What a guest is to have of the host's pools. */
export interface AddressOrder {
  /** As many as asked for, beside the explicit ones. */
  readonly ipv4Count: number
  readonly publicIpv4s: readonly string[]
  readonly ipv6Count: number
  readonly ipv6Addresses: readonly string[]
}

/** Addresses of guests beyond the private one: the pools, and what the host does for each address. */
export interface AddressBook {
  /** As the network's. */
  choose(order: AddressOrder): Pick<GuestNetwork, 'publicIpv4s' | 'ipv6Addresses'>
  /** The host's interfaces, routes and neighbours for all guests; returns what it repaired. */
  ensure(guests: readonly GuestNetwork[]): Promise<string[]>
  /** The same for one guest, and inside it where it runs; takes away what it has no more. Safe to repeat. */
  attach(guest: GuestNetwork): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /** What the host lacks of what its pools name. */
  readonly warnings: readonly string[]
  /** As the network's. Spawns nothing. */
  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan
  /** Ends what runs; the host keeps its addresses. */
  close(): Promise<void>
}

/** Rates of guests' interfaces. */
export interface Shaper {
  /** Of devices that are there; returns what it repaired. What belongs to no guest is removed. */
  ensure(guests: readonly GuestRates[]): Promise<string[]>
  /** No such device: the guest does not run, nothing is done. */
  apply(rates: GuestRates): Promise<void>
  remove(device: string): Promise<void>
  /** Interfaces came or went. */
  onLinks(listener: () => void): void
  /** Ends the pipes; rates stay in force. */
  close(): Promise<void>
}
