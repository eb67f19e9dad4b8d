import { createHash } from 'node:crypto'

/** Marks by which an agent recognizes the addresses and routes that it added to the host, even without the journal. */
export interface HostMark {
  /** Route metric that marks IPv4 addresses. It has no effect on routing, because a /32 address creates no route. */
  readonly metric: number
  /** Number that marks IPv6 routes and proxy entries: an unassigned rtm_protocol (rtnetlink(7)). */
  readonly protocol: number
}

/** Derives an agent's mark from the name of its nft table, so that the agents of one host have different marks. */
export function markOf(table: string): HostMark {
  const hash = createHash('sha256').update(table).digest()
  return { metric: 0xbe000000 + hash.readUIntBE(0, 3), protocol: 193 + (hash.readUInt8(3) % 60) }
}
