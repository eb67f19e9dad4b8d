/** nft families in which the agent has a table, in the order in which it reads them. */
export const families = ['bridge', 'inet', 'ip', 'ip6'] as const
export type Family = (typeof families)[number]

/**
 * Sets and maps whose elements belong to guests, each with the family of its table. Everything else in a table is the
 * same for all guests. The comments show key and value as `key: value`.
 */
export const guestSets = {
  /** device . mac . ipv4 that a guest may use as source */
  guests: 'bridge',
  /** device . mac . ipv6 that a guest may use as source */
  guests6: 'bridge',
  /** device . mac, as a number, that the guest may send as an option of a neighbour solicitation */
  solicitors: 'bridge',
  /** guest's address: jump to its firewall chain for flows that others open to it (in) or that it opens (out) */
  firewall_in: 'inet',
  firewall_out: 'inet',
  firewall_in6: 'inet',
  firewall_out6: 'inet',
  /** mac of a guest that may connect to port 25 of others */
  mailers: 'inet',
  /** guest's address: number of the guest (see `numberOf`) */
  owners: 'inet',
  owners6: 'inet',
  /** counters of bytes; the key of `received` is the guest's number, that of `sent` its mac */
  received: 'inet',
  sent: 'inet',
  /** public_in: public address: guest's address; public_out: guest's address: public address */
  public_in: 'ip',
  public_out: 'ip',
  /** source . destination, both of one guest, for guests that connect to themselves through the host */
  self: 'ip',
  /** protocol . host port: guest's address . port */
  ports: 'ip',
  /** host address . protocol . host port: guest's address . port */
  host_ports: 'ip',
  /** host addresses . protocol . host ports: guest's address; the port stays the same */
  port_ranges: 'ip',
  self6: 'ip6',
  ports6: 'ip6',
  host_ports6: 'ip6',
  port_ranges6: 'ip6',
} as const satisfies Record<string, Family>

export type GuestSet = keyof typeof guestSets

/** Sets that have a counter for each element. */
export const countingSets = ['received', 'sent'] as const satisfies readonly GuestSet[]
