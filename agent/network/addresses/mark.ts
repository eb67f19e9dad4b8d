import { createHash } from 'node:crypto'

/** How an agent tells what it made on the host from what others made, also where its journal was lost. */
export interface HostMark {
  /** Of IPv4 addresses: the metric of the route that an address alone (/32) does not even have. */
  readonly metric: number
  /** Of IPv6 routes and proxy entries: a number of rtnetlink(7)'s rtm_protocol that nobody was given. */
  readonly protocol: number
}

/** Agents of one host have tables of different names, and so different marks. */
export function markOf(table: string): HostMark {
  const hash = createHash('sha256').update(table).digest()
  return { metric: 0xbe000000 + hash.readUIntBE(0, 3), protocol: 193 + (hash.readUInt8(3) % 60) }
}
