/** nft families in which the agent has a table, in the order in which it reads them. */
export const families = ['bridge', 'inet', 'ip', 'ip6'] as const
export type Family = (typeof families)[number]

/** Sets and maps with elements of guests, and the family of their table. All other parts of tables are constant. */
export const guestSets = {
  /** Set of `device . mac . ipv4`: sources that a guest is allowed to use. */
  guests: 'bridge',
  /** Set of `device . mac . ipv6`: sources that a guest is allowed to use. */
  guests6: 'bridge',
  /** Set of `device . mac`, the MAC as a number: the only MAC that the device's neighbour solicitations can contain. */
  solicitors: 'bridge',
  /** Maps of guests' addresses to firewall chains: `in` for flows that others opened, `out` for the guest's flows. */
  firewall_in: 'inet',
  firewall_out: 'inet',
  firewall_in6: 'inet',
  firewall_out6: 'inet',
  /** Set of MACs: the guests that are allowed to connect to port 25 of other computers. */
  mailers: 'inet',
  /** Maps a guest's address to the guest's number, which `numberOf` derives from its private IPv4 address. */
  owners: 'inet',
  owners6: 'inet',
  /** Counters of bytes. The keys of `received` are numbers of guests, and the keys of `sent` are MACs. */
  received: 'inet',
  sent: 'inet',
  /** `public_in` maps a public address to a guest's address. `public_out` maps a guest's address to a public one. */
  public_in: 'ip',
  public_out: 'ip',
  /** Set of `source . destination`, two addresses of the same guest: flows from a guest to itself through the host. */
  self: 'ip',
  /** Maps `protocol . host port` to a guest's `address . port`. */
  ports: 'ip',
  /** Maps `host address . protocol . host port` to a guest's `address . port`. */
  host_ports: 'ip',
  /** Maps `host addresses . protocol . range of host ports` to a guest's address. Port numbers stay unchanged. */
  port_ranges: 'ip',
  self6: 'ip6',
  ports6: 'ip6',
  host_ports6: 'ip6',
  port_ranges6: 'ip6',
} as const satisfies Record<string, Family>

export type GuestSet = keyof typeof guestSets

/** Sets that have a counter for each element. */
export const countingSets = ['received', 'sent'] as const satisfies readonly GuestSet[]
