import type { Firewall } from './firewall/types.js'

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

/**
 * The host's network for guests: one bridge, one nft table per family. Each call is one atomic nft
 * transaction and safe to repeat; nothing scales with the number of guests but `ensure`.
 */
export interface Network {
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
  /**
   * Inside the journal's transaction: all that is ordered, or nothing. The caller stores what is returned.
   * @throws {BerthError} `resource_exhausted`, `address_in_use`, `invalid_field`, `unsupported`
   */
  choose(order: AddressOrder): Pick<GuestNetwork, 'publicIpv4s' | 'ipv6Addresses'>
  /** The host's interfaces, routes and neighbours for all guests; returns what it repaired. */
  ensure(guests: readonly GuestNetwork[]): Promise<string[]>
  /** The same for one guest, and inside it where it runs; takes away what it has no more. Safe to repeat. */
  attach(guest: GuestNetwork): Promise<void>
  detach(guest: GuestNetwork): Promise<void>
  /** What the host lacks of what its pools name. */
  readonly warnings: readonly string[]
}

/** Bounds of a guest's interface in Mbit/s; 0 = unlimited. */
export interface GuestRates {
  readonly device: string
  readonly downMbps: number
  readonly upMbps: number
  /** Nothing passes, in either direction. */
  readonly cut?: boolean
}

/** Rates of guests' interfaces. */
export interface Shaper {
  /** Of devices that are there; returns what it repaired. What belongs to no guest is removed. */
  ensure(guests: readonly GuestRates[]): Promise<string[]>
  /** No such device: the guest does not run, nothing is done. */
  apply(rates: GuestRates): Promise<void>
  remove(device: string): Promise<void>
  /** Interfaces came or went, as when a guest reboots by itself: its new one has no rates yet. */
  onLinks(listener: () => void): void
}
