import type { Database } from '../../state/database.js'
import { holds, parseIpv6 } from './ipv6.js'
import { findSource, type Ipv6Plan } from './plan-ipv6.js'
import { networkOf, type Ipv6Prefix } from './pool.js'
import { readAssignments, readHeldPrefixes, writeHeldPrefixes } from './store.js'

/*
 * A prefix that was found on an interface stays what guests are given addresses of, as long as it is there, whatever
 * other interfaces and routes appear; and what guests have of it stays theirs when it goes. An administrator who sets
 * prefixes ends that.
 */

/** Inside the journal's transaction: from now on prefixes that these addresses are of are held. */
export function holdPrefixes(db: Database, { sources }: Ipv6Plan, addresses: readonly string[]): void {
  const held = readHeldPrefixes(db)
  const chosen = new Set(addresses.map((address) => findSource(sources, address)))
  const fresh = [...chosen].flatMap((source) =>
    source?.isFound && !held.some((prefix) => isSame(prefix, source.prefix)) ? [source.prefix] : [],
  )
  if (fresh.length > 0) writeHeldPrefixes(db, [...held.filter((prefix) => isUsed(db, prefix)), ...fresh])
}

/** Does a guest have an address of it? */
export function isUsed(db: Database, prefix: Ipv6Prefix): boolean {
  const network = networkOf(prefix)
  return readAssignments(db, 6).some(({ address }) => holds(network, parseIpv6(address)!))
}

function isSame(a: Ipv6Prefix, b: Ipv6Prefix): boolean {
  return a.prefix === b.prefix && a.prefixLen === b.prefixLen && a.interface === b.interface
}
