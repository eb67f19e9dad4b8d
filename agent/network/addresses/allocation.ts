import { randomBytes, randomInt } from 'node:crypto'
import { BerthError, conflict, invalidField } from '../../../shared/errors.js'
import type { Database } from '../../state/database.js'
import { formatIpv4, parseIpv4 } from '../subnet.js'
import { formatIpv6, parseIpv6 } from './ipv6.js'
import { findSource, type Ipv6Source } from './plan-ipv6.js'
import { isMapped } from './address-tables.js'

/*
 * This module chooses addresses inside the caller's transaction. Only the journal decides which addresses are free. The
 * caller stores the chosen addresses with the guest in this transaction. An address is free when its row is deleted.
 */

export interface AddressRequest {
  /** Number of addresses to choose in addition to the explicit ones. */
  readonly count: number
  /** Addresses that the guest must get. */
  readonly addresses: readonly string[]
}

/**
 * Chooses public addresses of the pool: the explicit ones first, then `count` free ones.
 * @throws {BerthError} `invalid_field` for an address outside the pool, `address_in_use`, `resource_exhausted`
 */
export function allocatePublicIpv4s(db: Database, { count, addresses }: AddressRequest): string[] {
  const field = 'public_ipv4s'
  const explicit = addresses.map((text) => {
    const value = parseIpv4(text)
    if (value === undefined) throw invalidField(field, `${field}: ${text} is not an IPv4 address`)
    return formatIpv4(value)
  })
  refuseTwice(field, explicit)
  const pooled = db.prepare('SELECT 1 FROM ipv4_pool WHERE address = ?')
  for (const address of explicit) {
    if (!pooled.get(address)) throw invalidField(field, `${field}: ${address} is not in the pool of the host`)
    refuseAssigned(db, address)
  }
  const free = count === 0 ? [] : listFreePublic(db).filter((address) => !explicit.includes(address))
  if (free.length < count)
    throw exhausted(`the pool of the host has too few free IPv4 addresses: ${count} requested`, free.length)
  return [...explicit, ...pickRandom(free, count)]
}

function listFreePublic(db: Database): string[] {
  return db
    .prepare<[], string>(
      `SELECT address FROM ipv4_pool p
       WHERE NOT EXISTS (SELECT 1 FROM guest_addresses a WHERE a.address = p.address)
         AND p.address NOT IN (SELECT host_ip FROM port_mappings)`,
    )
    .pluck()
    .all()
}

export interface Ipv6Request extends AddressRequest {
  /** Networks from which addresses are chosen, in this order. */
  readonly sources: readonly Ipv6Source[]
  /** Canonical addresses of the host and of routers. Guests never get these addresses. */
  readonly reserved: ReadonlySet<string>
  /** Reason why `sources` is empty, for the error message. */
  readonly reason: string
}

/**
 * Chooses IPv6 addresses of the host's prefixes: the explicit ones first, then `count` random ones.
 * @returns canonical addresses
 * @throws {BerthError} `invalid_field` for an address outside all prefixes, `address_in_use`, `resource_exhausted`
 */
export function allocateIpv6s(db: Database, request: Ipv6Request): string[] {
  const { count, addresses, sources, reason } = request
  if (count + addresses.length > 0 && sources.length === 0)
    throw new BerthError('exhausted', 'resource_exhausted', `IPv6 addresses are not available: ${reason}`)
  const explicit = addresses.map((text) => parseExplicit(text, request))
  refuseTwice('ipv6_addresses', explicit)
  for (const address of explicit) refuseAssigned(db, address)
  return [...explicit, ...chooseIpv6s(db, request, new Set(explicit))]
}

function parseExplicit(text: string, { sources, reserved }: Ipv6Request): string {
  const value = parseIpv6(text)
  if (value === undefined) throw invalidField('ipv6_addresses', `ipv6_addresses: ${text} is not an IPv6 address`)
  const address = formatIpv6(value)
  const source = findSource(sources, address)
  if (!source) throw invalidField('ipv6_addresses', `ipv6_addresses: ${address} is not in a prefix of the host`)
  if (value === source.network.first || reserved.has(address))
    throw invalidField('ipv6_addresses', `ipv6_addresses: ${address} is reserved for the host or its gateway`)
  return address
}

/**
 * Number of random tries. They find a free address unless the prefix is nearly full. If all tries fail and the prefix
 * has at most `largestListed` addresses, the address is chosen from a list of all free ones.
 */
const tries = 32
const largestListed = 1n << 16n

/** Chooses addresses from the prefixes in their order. The next prefix is used when the previous one is full. */
function chooseIpv6s(db: Database, request: Ipv6Request, explicit: ReadonlySet<string>): string[] {
  const taken = db.prepare('SELECT 1 FROM guest_addresses WHERE address = ?')
  const chosen = new Set(explicit)
  const isFree = (address: string): boolean =>
    !chosen.has(address) && !request.reserved.has(address) && !taken.get(address) && !isMapped(db, address)
  for (const { network } of request.sources) {
    const missing = (): number => request.count + explicit.size - chosen.size
    const size = network.last - network.first // the network address itself is never assigned
    for (let i = 0; missing() > 0 && i < tries + 2 * request.count; i++) {
      const address = formatIpv6(network.first + 1n + randomBelow(size))
      if (isFree(address)) chosen.add(address)
    }
    if (missing() === 0 || size > largestListed) continue
    const all = Array.from({ length: Number(size) }, (_, at) => formatIpv6(network.first + 1n + BigInt(at)))
    for (const address of pickRandom(all.filter(isFree), missing())) chosen.add(address)
  }
  const found = chosen.size - explicit.size
  if (found < request.count)
    throw exhausted(`the prefixes of the host have too few free IPv6 addresses: ${request.count} requested`, found)
  return [...chosen].slice(explicit.size)
}

/** Returns a random number below the limit. It uses 192 random bits, so that the modulo's bias is negligible. */
function randomBelow(limit: bigint): bigint {
  return BigInt(`0x${randomBytes(24).toString('hex')}`) % limit
}

function pickRandom<T>(items: readonly T[], count: number): T[] {
  const rest = [...items]
  for (let i = 0; i < Math.min(count, rest.length); i++) {
    const j = randomInt(i, rest.length)
    ;[rest[i], rest[j]] = [rest[j]!, rest[i]!]
  }
  return rest.slice(0, count)
}

/** True if the host's pool does not contain the address, and neither a guest nor a mapping uses it. */
export function isUnknown(db: Database, address: string): boolean {
  const used = db.prepare(
    'SELECT 1 FROM guest_addresses WHERE address = ? UNION SELECT 1 FROM ipv4_pool WHERE address = ?',
  )
  return used.get(address, address) === undefined && !isMapped(db, address)
}

function refuseAssigned(db: Database, address: string): void {
  if (db.prepare('SELECT 1 FROM guest_addresses WHERE address = ?').get(address))
    throw conflict('address_in_use', `${address} is assigned to another container`)
  if (isMapped(db, address)) throw conflict('address_in_use', `${address} is used as host_ip by a port mapping`)
}

function refuseTwice(field: string, addresses: readonly string[]): void {
  if (new Set(addresses).size < addresses.length)
    throw invalidField(field, `${field}: an address appears more than once`)
}

function exhausted(wanted: string, left: number): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', `${wanted}, ${left} free`)
}
