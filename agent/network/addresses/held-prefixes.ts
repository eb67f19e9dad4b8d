import type { Database } from '../../state/database.js'
import { holds, parseIpv6 } from './ipv6.js'
import { findSource, type Ipv6Plan } from './plan-ipv6.js'
import { ipv6NetworkOf, type Ipv6Prefix } from './pool.js'
import { readAssignments, readHeldPrefixes, writeHeldPrefixes } from './address-tables.js'

/*
 * A held prefix is an IPv6 prefix that was found on an interface of the host and from which guests have addresses.
 * While the host has the prefix, guests get new addresses from it, even if other interfaces and routes appear. If the
 * host loses the prefix, guests keep their addresses. If an operator sets prefixes through the API, no prefix is held
 * any more.
 */

/** Records the found prefixes that contain one of `addresses` as held. Runs inside the caller's transaction. */
export function holdPrefixes(db: Database, { sources }: Ipv6Plan, addresses: readonly string[]): void {
  const held = readHeldPrefixes(db)
  const chosen = new Set(addresses.map((address) => findSource(sources, address)))
  const fresh = [...chosen].flatMap((source) =>
    source?.isFound && !held.some((prefix) => isSame(prefix, source.prefix)) ? [source.prefix] : [],
  )
  if (fresh.length > 0) writeHeldPrefixes(db, [...held.filter((prefix) => isUsed(db, prefix)), ...fresh])
}

export function isUsed(db: Database, prefix: Ipv6Prefix): boolean {
  const network = ipv6NetworkOf(prefix)
  return readAssignments(db, 6).some(({ address }) => holds(network, parseIpv6(address)!))
}

function isSame(a: Ipv6Prefix, b: Ipv6Prefix): boolean {
  return a.prefix === b.prefix && a.prefixLen === b.prefixLen && a.interface === b.interface
}
