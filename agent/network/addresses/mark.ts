import { createHash } from 'node:crypto'

/** Marks that an agent puts on its addresses and routes on the host, to recognize them even without its journal. */
export interface HostMark {
  /** For IPv4 addresses: the route metric. A /32 has no route of its own, so the number has no effect. */
  readonly metric: number
  /** For IPv6 routes and proxy entries: an unassigned rtm_protocol number (rtnetlink(7)). */
  readonly protocol: number
}

/** Derives the mark from the table's name, which differs between agents of one host. */
export function markOf(table: string): HostMark {
  const hash = createHash('sha256').update(table).digest()
  return { metric: 0xbe000000 + hash.readUIntBE(0, 3), protocol: 193 + (hash.readUInt8(3) % 60) }
}
