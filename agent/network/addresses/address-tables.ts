import type { Database } from '../../state/database.js'
import { findSetting, putSetting } from '../../state/settings-table.js'
import type { PortRange, PortSpan } from '../ports.js'
import { parseIpv4 } from '../subnet.js'
import type { PoolAddress, Ipv6Prefix } from './pool.js'

/* This module reads and writes pools and assignments in the journal. Callers wrap writes in a transaction. */

export interface Assignment {
  readonly guestUuid: string
  readonly address: string
}

/** @returns the public IPv4 pool, ascending */
export function readPool(db: Database): PoolAddress[] {
  return db
    .prepare<[], PoolAddress>('SELECT address, interface, prefix_len AS prefixLen, gateway FROM ipv4_pool')
    .all()
    .sort((a, b) => parseIpv4(a.address)! - parseIpv4(b.address)!)
}

export function readPrefixes(db: Database): Ipv6Prefix[] {
  return db
    .prepare<[], Ipv6Prefix>(
      `SELECT interface, address, prefix, prefix_len AS prefixLen, gateway FROM ipv6_prefixes ORDER BY prefix`,
    )
    .all()
}

/** Reads the addresses of all guests in one family. A guest's addresses keep their order. */
export function readAssignments(db: Database, family: 4 | 6): Assignment[] {
  return db
    .prepare<[number], Assignment>(
      `SELECT a.guest_uuid AS guestUuid, a.address
       FROM guest_addresses a JOIN guests g ON g.uuid = a.guest_uuid
       WHERE a.family = ? ORDER BY g.id, a.position`,
    )
    .all(family)
}

/** Reads the addresses that port mappings name as host_ip. */
export function readMappedAddresses(db: Database): Set<string> {
  const addresses = db.prepare<[], string>("SELECT DISTINCT host_ip FROM port_mappings WHERE host_ip <> ''")
  return new Set(addresses.pluck().all())
}

export function isMapped(db: Database, address: string): boolean {
  // The query names both protocols, because the index begins with the protocol.
  const named = db.prepare("SELECT 1 FROM port_mappings WHERE protocol IN ('tcp', 'udp') AND host_ip = ?")
  return named.get(address) !== undefined
}

export function readMappedPorts(db: Database): PortSpan[] {
  return db
    .prepare<[], PortSpan>(
      `SELECT protocol, host_ip AS hostIp, host_port AS first, host_port_end AS last FROM port_mappings`,
    )
    .all()
}

export function replacePool(db: Database, items: readonly PoolAddress[]): void {
  db.prepare('DELETE FROM ipv4_pool').run()
  const insert = db.prepare('INSERT INTO ipv4_pool (address, interface, prefix_len, gateway) VALUES (?, ?, ?, ?)')
  for (const item of items) insert.run(item.address, item.interface, item.prefixLen, item.gateway)
}

export function replacePrefixes(db: Database, items: readonly Ipv6Prefix[]): void {
  db.prepare('DELETE FROM ipv6_prefixes').run()
  const insert = db.prepare(
    'INSERT INTO ipv6_prefixes (prefix, prefix_len, interface, address, gateway) VALUES (?, ?, ?, ?, ?)',
  )
  for (const item of items) insert.run(item.prefix, item.prefixLen, item.interface, item.address, item.gateway)
}

const natPortsKey = 'nat_ports'

/** Reads the range of host ports for mappings: the one set through the API, otherwise the configured one. */
export function readNatPorts(db: Database, { start, end }: PortRange): PortRange {
  const value = findSetting(db, natPortsKey)
  return value === undefined ? { start, end } : (JSON.parse(value) as PortRange)
}

export function writeNatPorts(db: Database, { start, end }: PortRange): void {
  putSetting(db, natPortsKey, JSON.stringify({ start, end }))
}

const heldPrefixesKey = 'held_prefixes'

/** Reads the prefixes that were found on interfaces and that guests use (held-prefixes.ts), oldest first. */
export function readHeldPrefixes(db: Database): Ipv6Prefix[] {
  const value = findSetting(db, heldPrefixesKey)
  return value === undefined ? [] : (JSON.parse(value) as Ipv6Prefix[])
}

export function writeHeldPrefixes(db: Database, prefixes: readonly Ipv6Prefix[]): void {
  if (prefixes.length > 0) putSetting(db, heldPrefixesKey, JSON.stringify(prefixes))
  else db.prepare('DELETE FROM settings WHERE key = ?').run(heldPrefixesKey)
}
