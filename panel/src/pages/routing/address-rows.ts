import type { Guest, Routing } from '../../api/types.ts'

type Assignment = Routing['ipv4_assignments'][number]
/** A public address of a host, and who uses it. */
export interface AddressRow {
  readonly address: string
  /** Guest that has the address. Undefined: the address is free. */
  readonly guest: { readonly id: number; readonly name: string } | undefined
  /** Customers of the guest. Empty also if the user may not see them. */
  readonly owners: NonNullable<Guest['owners']>
}
type Holder = Pick<Guest, 'id' | 'owners'>

/** Lists all addresses of the IPv4 pool, also free ones, and the assigned IPv6 addresses, whose pool is too large. */
export function addressRows(routing: Routing, guests: readonly Holder[]): AddressRow[] {
  const owners = new Map(guests.map((guest) => [guest.id, guest.owners ?? []]))
  const rowOf = ({ address, container_id: id, container_name: name }: Assignment): AddressRow => ({
    address,
    guest: { id, name },
    owners: owners.get(id) ?? [],
  })
  const assigned = new Map(routing.ipv4_assignments.map((one) => [one.address, rowOf(one)]))
  const free = routing.public_ipv4_addresses
    .filter(({ address }) => !assigned.has(address))
    .map(({ address }) => ({ address, guest: undefined, owners: [] }))
  const sorted = [...assigned.values(), ...free].sort((a, b) => compareAddresses(a.address, b.address))
  return [...sorted, ...routing.ipv6_assignments.map(rowOf)]
}

function compareAddresses(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}

/** Returns the rows that contain a text in the address, or in the name of the guest or of a customer. */
export function findAddresses(rows: readonly AddressRow[], text: string): AddressRow[] {
  const wanted = text.trim().toLowerCase()
  return rows.filter(({ address, guest, owners }) =>
    [address, guest?.name ?? '', ...owners.map(({ username }) => username)].some((one) =>
      one.toLowerCase().includes(wanted),
    ),
  )
}
