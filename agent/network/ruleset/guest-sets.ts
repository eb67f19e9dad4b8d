/** Families in which there is a table, in the order in which they are read. */
export const families = ['bridge', 'inet', 'ip', 'ip6'] as const
export type Family = (typeof families)[number]

/** Sets and maps whose elements are guests', by the family of their table. The rest of a table is constant. */
export const guestSets = {
  /** device . mac . ipv4: who may speak from which port */
  guests: 'bridge',
  /** device . mac . ipv6 */
  guests6: 'bridge',
  /** device . mac as a number: what a neighbour solicitation may tell */
  solicitors: 'bridge',
  /** address: verdict. Rules for flows opened towards the guest and by it. */
  firewall_in: 'inet',
  firewall_out: 'inet',
  firewall_in6: 'inet',
  firewall_out6: 'inet',
  /** address: the guest, as its number */
  owners: 'inet',
  owners6: 'inet',
  /** number of the guest, its mac; counting what it receives, sends */
  received: 'inet',
  sent: 'inet',
  /** public address: guest's; guest's address: its public one */
  public_in: 'ip',
  public_out: 'ip',
  /** address . address of a guest that reaches itself by way of the host */
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

/** Sets that keep a counter for each element. */
export const countingSets = ['received', 'sent'] as const satisfies readonly GuestSet[]
