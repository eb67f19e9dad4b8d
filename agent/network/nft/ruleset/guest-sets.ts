/** Families that have a table, in the order in which they are read. */
export const families = ['bridge', 'inet', 'ip', 'ip6'] as const
export type Family = (typeof families)[number]

/**
 * Sets and maps whose elements belong to guests, with the family of their table. Everything else in a table is
 * constant.
 */
export const guestSets = {
  /** device . mac . ipv4: the sources allowed on each port */
  guests: 'bridge',
  /** device . mac . ipv6 */
  guests6: 'bridge',
  /** device . mac as a number; the only MAC address that the guest may send in a neighbour solicitation */
  solicitors: 'bridge',
  /** address: verdict; leads to the guest's firewall chains for flows opened towards it and by it */
  firewall_in: 'inet',
  firewall_out: 'inet',
  firewall_in6: 'inet',
  firewall_out6: 'inet',
  /** mac: a guest that may send mail to others, by port 25 */
  mailers: 'inet',
  /** address: number of its guest */
  owners: 'inet',
  owners6: 'inet',
  /** received: number of the guest, sent: its mac; counters of bytes */
  received: 'inet',
  sent: 'inet',
  /** public_in: public address to guest's; public_out: guest's address to its public one */
  public_in: 'ip',
  public_out: 'ip',
  /** address . address of a guest that connects to itself through the host */
  self: 'ip',
  /** protocol . host port: address . port */
  ports: 'ip',
  /** host address . protocol . host port: address . port */
  host_ports: 'ip',
  /** host addresses . protocol . ports: address; the port stays the same */
  port_ranges: 'ip',
  self6: 'ip6',
  ports6: 'ip6',
  host_ports6: 'ip6',
  port_ranges6: 'ip6',
} as const satisfies Record<string, Family>

export type GuestSet = keyof typeof guestSets

/** Sets with a counter for each element. */
export const countingSets = ['received', 'sent'] as const satisfies readonly GuestSet[]
