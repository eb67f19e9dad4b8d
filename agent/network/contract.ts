/** A guest's network as decided and journaled. */
export interface GuestNetwork {
  readonly uuid: string
  readonly device: string
  readonly mac: string
  readonly ipv4: string
  readonly portMappings: readonly NatMapping[]
}

export interface NatMapping {
  readonly protocol: 'tcp' | 'udp'
  readonly hostPort: number
  readonly containerPort: number
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
  /** Calls back after another program changed the tables, so that `ensure` need not wait for its turn. */
  onForeignChange(listener: () => void): void
  /** Removes tables, bridge and pipes' processes; for `down --purge`. */
  remove(): Promise<void>
  /** Ends the pipes; the host keeps its rules. */
  close(): Promise<void>
}
