import type { Guest, Migration } from '../../api/types.ts'
import { hosts } from '../../hosts/hosts.svelte.ts'
import { t } from '../../i18n/text.svelte.ts'

/** An address or port of a guest before and after a move. */
export interface MoveRow {
  readonly label: string
  readonly from: string
  readonly to: string
}

/** Returns the rows of the table that compares the guest's addresses and ports before and after a move. */
export function moveRows(plan: Migration, guest: Pick<Guest, 'port_mappings'>): MoveRow[] {
  return [
    { label: t('network.inner'), ...plan.private_ipv4 },
    ...plan.public_ipv4s.map((change) => ({ label: t('network.publicIpv4'), ...change })),
    ...plan.ipv6_addresses.map((change) => ({ label: 'IPv6', ...change })),
    ...portRows(plan, guest),
  ]
}

/** Returns a row for the host's public address, at which clients reach mapped ports, and one for each mapped port. */
function portRows(plan: Migration, { port_mappings: present }: Pick<Guest, 'port_mappings'>): MoveRow[] {
  if (plan.port_mappings.length === 0) return []
  const address = { from: addressOf(plan.from_host_id), to: addressOf(plan.to_host_id) }
  const ports = plan.port_mappings.map((one, index) => {
    const { protocol, container_port: inner, from_host_port: from, to_host_port: to } = one
    const more = (present[index]?.container_port_end ?? inner) - inner
    const label = t('move.port', { protocol: protocol.toUpperCase(), port: span(inner, more) })
    return { label, from: span(from, more), to: span(to, more) }
  })
  return [{ label: t('move.hostAddress'), ...address }, ...ports]
}

function addressOf(hostId: string): string {
  return hosts.rows?.find(({ id }) => id === hostId)?.public_address ?? ''
}

/** Returns the text of a port or a range of ports. @param more number of ports that follow `port` in the range */
function span(port: number, more: number): string {
  return more > 0 ? `${port}–${port + more}` : String(port)
}
