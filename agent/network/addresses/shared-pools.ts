import { isInRange, parseCidrOrAddress } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'
import type { AgentConfig } from '../../config.js'
import type { Database } from '../../state/database.js'
import { findSetting, putSetting } from '../../state/settings-table.js'
import { formatIpv6 } from './ipv6.js'
import { findSource, type Ipv6Source } from './plan-ipv6.js'
import type { Ipv6Prefix, PoolAddress } from './pool.js'

/*
 * A shared pool is a range of public addresses on a segment to which several hosts are connected
 * (docs/design/public-addresses.md). Each IPv4 address is in the journaled pool of at most one host, and only this host
 * assigns it. When a guest moves to another host of the shared pool, its IPv4 addresses move from the pool of the
 * source to the pool of the target. No list contains IPv6 addresses, because hosts choose them at random from large
 * prefixes.
 */

/** A shared pool as hosts report it. Two hosts serve the same pool if name and range are equal. */
export interface SharedRange {
  readonly name: string
  /** IPv4 or IPv6 network in canonical form, such as 203.0.113.0/24. */
  readonly range: string
}

/** A shared pool of this host. */
export interface SharedPool extends SharedRange {
  /** Interface on the segment of the pool. Empty: the uplink with the default route. */
  readonly interface: string
}

/**
 * Maximum length of IPv6 ranges and prefixes of shared pools. Hosts choose addresses at random and do not know those of
 * other hosts, so the same address must be improbable: about 1 in 50,000 for 100,000 addresses in a /80.
 */
const longestShared = 80

/**
 * @throws {BerthError} `invalid_field` if a range is not a network, an IPv6 range is too small, or two pools have the
 * same name
 */
export function parseSharedPools(configured: AgentConfig['network']['shared_pools']): SharedPool[] {
  const names = new Set<string>()
  return configured.map((pool, index) => {
    const at = `network.shared_pools.${index}`
    const range = parseCidrOrAddress(pool.range)
    if (!range) throw invalidField(`${at}.range`, `${at}.range: must be an IPv4 or IPv6 network`)
    if (range.family === 'ipv6' && lengthOf(range.text, 128) > longestShared)
      throw invalidField(
        `${at}.range`,
        `${at}.range: an IPv6 range must have a prefix length of at most ${longestShared}`,
      )
    if (names.has(pool.name)) throw invalidField(`${at}.name`, `${at}.name: ${pool.name} appears more than once`)
    names.add(pool.name)
    return { ...pool, range: range.text }
  })
}

/** Returns the prefix length of a canonical range. @param whole length of a single address */
function lengthOf(range: string, whole: number): number {
  return Number(range.split('/')[1] ?? whole)
}

/** Facts that decide which addresses an arriving guest keeps. */
export interface KeptFacts {
  readonly own: readonly SharedPool[]
  /** Shared pools of the guest's source host. */
  readonly others: readonly SharedRange[]
  /** Interface for pools that name no interface. Empty: the host has no default route. */
  readonly uplink: string
  readonly interfaces: ReadonlySet<string>
  /** True if the address is not used on this host, and no guest has it. */
  readonly isFree: (address: string) => boolean
}

/** Returns the shared pools of this host that the source host serves, too. */
function commonOf({ own, others }: Pick<KeptFacts, 'own' | 'others'>): SharedPool[] {
  return own.filter((pool) => others.some(({ name, range }) => name === pool.name && range === pool.range))
}

/** Plans which public IPv4 addresses an arriving guest keeps, each with its interface on this host. */
export function planKept(addresses: readonly string[], facts: KeptFacts): PoolAddress[] {
  const { uplink, interfaces, isFree } = facts
  const common = commonOf(facts)
  return addresses.flatMap((address) => {
    const pool = common.find(({ range }) => isInRange(address, range))
    const device = pool?.interface || uplink
    if (!pool || !interfaces.has(device) || !isFree(address)) return []
    return [{ address, interface: device, prefixLen: lengthOf(pool.range, 32), gateway: '' }]
  })
}

export interface KeptIpv6Facts extends Omit<KeptFacts, 'interfaces'> {
  /** Networks from which guests of this host get new addresses. */
  readonly sources: readonly Ipv6Source[]
}

/**
 * Plans which IPv6 addresses an arriving guest keeps. This host must answer neighbour solicitations for the prefix on
 * the interface of the shared pool. A routed prefix leads to one host only, so its addresses do not stay.
 */
export function planKeptIpv6(addresses: readonly string[], facts: KeptIpv6Facts): string[] {
  const { uplink, sources, isFree } = facts
  const common = commonOf(facts)
  return addresses.filter((address) => {
    const pool = common.find(({ range }) => isInRange(address, range))
    const source = findSource(sources, address)
    if (!pool || source?.mode !== 'proxied' || source.prefix.prefixLen > longestShared) return false
    // The first address of a prefix is the anycast address of its routers.
    const isFirst = formatIpv6(source.network.first) === address
    return source.prefix.interface === (pool.interface || uplink) && !isFirst && isFree(address)
  })
}

/**
 * Refuses prefixes in a shared pool that are too small for addresses that several hosts choose at random.
 * @throws {BerthError} `invalid_field`
 */
export function checkSharedPrefixes(prefixes: readonly Ipv6Prefix[], pools: readonly SharedRange[]): void {
  const index = prefixes.findIndex(({ prefix, prefixLen }) => prefixLen > longestShared && isShared(pools, prefix))
  if (index < 0) return
  const field = `ipv6_prefixes.${index}.prefix_len`
  throw invalidField(field, `${field}: must be at most ${longestShared} for a prefix in a shared pool`)
}

/** True if one of the shared pools contains the address. */
export function isShared(pools: readonly SharedRange[], address: string): boolean {
  return pools.some(({ range }) => isInRange(address, range))
}

const departedKey = 'departed_ipv4s'

/** Reads the addresses that left this host's pool together with a guest. Other hosts may have these addresses now. */
export function readDeparted(db: Database): ReadonlySet<string> {
  const value = findSetting(db, departedKey)
  return new Set(value === undefined ? [] : (JSON.parse(value) as string[]))
}

/**
 * Reads the addresses that belong to other hosts: addresses of arriving or fenced guests that are not in this host's
 * pool, and departed addresses (`readDeparted`).
 * @param isChecked true if it was checked that no other host has the new addresses; departed addresses are then omitted
 */
export function readElsewhere(db: Database, isChecked: boolean): ReadonlySet<string> {
  const arriving = db.prepare<[], string>(
    `SELECT a.address FROM guest_addresses a JOIN guest_owners o ON o.guest_uuid = a.guest_uuid
     WHERE a.family = 4 AND o.role IN ('arriving', 'fenced') AND a.address NOT IN (SELECT address FROM ipv4_pool)`,
  )
  return new Set([...arriving.pluck().all(), ...(isChecked ? [] : readDeparted(db))])
}

/** Moves addresses from the pool to the departed addresses. Joins the caller's transaction. @returns the moved items */
export function departAddresses(db: Database, addresses: readonly string[]): PoolAddress[] {
  const find = db.prepare<[string], PoolAddress>(
    'SELECT address, interface, prefix_len AS prefixLen, gateway FROM ipv4_pool WHERE address = ?',
  )
  const left = addresses.flatMap((address) => find.get(address) ?? [])
  if (left.length === 0) return []
  const remove = db.prepare('DELETE FROM ipv4_pool WHERE address = ?')
  for (const { address } of left) remove.run(address)
  writeDeparted(db, [...readDeparted(db), ...left.map(({ address }) => address)])
  return left
}

/** Adds addresses to the pool, because they belong to this host now. Joins the caller's transaction. */
export function adoptAddresses(db: Database, items: readonly PoolAddress[]): void {
  const insert = db.prepare(
    'INSERT OR IGNORE INTO ipv4_pool (address, interface, prefix_len, gateway) VALUES (?, ?, ?, ?)',
  )
  for (const item of items) insert.run(item.address, item.interface, item.prefixLen, item.gateway)
  forgetDeparted(db, new Set(items.map(({ address }) => address)))
}

/** Deletes addresses from the departed addresses (`readDeparted`), so that the pool can contain them again. */
export function forgetDeparted(db: Database, addresses: ReadonlySet<string>): void {
  const departed = readDeparted(db)
  const left = [...departed].filter((address) => !addresses.has(address))
  if (left.length < departed.size) writeDeparted(db, left)
}

function writeDeparted(db: Database, addresses: readonly string[]): void {
  putSetting(db, departedKey, JSON.stringify([...new Set(addresses)].sort()))
}
