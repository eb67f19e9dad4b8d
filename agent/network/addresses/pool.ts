import { BerthError, invalidField } from '../../../shared/errors.js'
import { formatIpv4, parseIpv4 } from '../subnet.js'
import { formatIpv6, holds, overlaps, parseIpv6, parseIpv6Network, type Ipv6Network } from './ipv6.js'

/** A public IPv4 address that guests can get. */
export interface PoolAddress {
  readonly address: string
  /** Interface of the host on which the address is reachable. */
  readonly interface: string
  /** Prefix length of the address's network. */
  readonly prefixLen: number
  /** Address of the router. Empty: the host's default gateway. */
  readonly gateway: string
}

/** A network from which guests get IPv6 addresses. */
export interface Ipv6Prefix {
  readonly interface: string
  /** The host's own address in the prefix; may be empty. */
  readonly address: string
  /** Network address of the prefix, without its length. */
  readonly prefix: string
  readonly prefixLen: number
  readonly gateway: string
}

/** Facts about the host that a pool is checked against. */
export interface PoolRules {
  /** Interfaces that a pool is allowed to name. */
  readonly interfaces: ReadonlySet<string>
  /** Interface for pool items that name no interface, by address family. Empty: the host has no default route. */
  readonly defaultInterfaces: { readonly ipv4: string; readonly ipv6: string }
  /** The host's own addresses. A pool must not contain them, because a guest that had one would cut off the host. */
  readonly ownAddresses: ReadonlySet<string>
  /** The host's default gateway. Empty: the host has no default gateway. */
  readonly gateway: string
  /** Descriptions of the network and broadcast addresses of the host's segments, by address. */
  readonly edges: ReadonlyMap<string, string>
  /** Private IPv4 network of guests. */
  readonly subnet: { readonly first: number; readonly last: number }
  readonly subnet6: Ipv6Network
}

const maxPool = 65_536
const maxPrefixes = 256

/**
 * Checks a public IPv4 pool and returns it in canonical form.
 * @throws {BerthError} `invalid_field` that names the item, for example `items.0.address`
 */
export function parsePool(items: readonly PoolAddress[], rules: PoolRules): PoolAddress[] {
  if (items.length > maxPool) throw invalidField('items', `items: at most ${maxPool} addresses are allowed`)
  const parsed = items.map((item, index) => parsePoolAddress(item, `items.${index}`, rules))
  refuseTwice(
    parsed.map(({ address }) => address),
    (index) => `items.${index}.address`,
  )
  refuseGateways(parsed, rules)
  return parsed
}

/** Refuses gateways as pool addresses, because a guest with a router's address would cut off the router's users. */
function refuseGateways(items: readonly PoolAddress[], { gateway }: PoolRules): void {
  const gateways = new Set([gateway, ...items.map((item) => item.gateway)])
  const index = items.findIndex(({ address }) => gateways.has(address))
  if (index >= 0) throw bad(`items.${index}.address`, `${items[index]!.address} is the address of a gateway`)
}

function parsePoolAddress(item: PoolAddress, at: string, rules: PoolRules): PoolAddress {
  const value = parseIpv4(item.address)
  if (value === undefined || !isUnicast(value)) throw bad(`${at}.address`, 'must be a unicast IPv4 address')
  const address = formatIpv4(value)
  if (rules.ownAddresses.has(address)) throw bad(`${at}.address`, `${address} belongs to the host`)
  const edge = rules.edges.get(address)
  if (edge !== undefined) throw bad(`${at}.address`, `${address} is the ${edge}`)
  if (value >= rules.subnet.first - 2 && value <= rules.subnet.last + 1)
    throw bad(`${at}.address`, `${address} is in the private network of the guests`)
  if (item.gateway !== '' && parseIpv4(item.gateway) === undefined)
    throw bad(`${at}.gateway`, 'must be an IPv4 address')
  return {
    address,
    interface: parseInterface(item.interface || rules.defaultInterfaces.ipv4, at, rules),
    prefixLen: parseLength(item.prefixLen || 32, `${at}.prefix_len`, { min: 1, max: 32 }),
    gateway: item.gateway,
  }
}

/** True if a host can have the address: not this-network, loopback, link-local, multicast or reserved (RFC 6890). */
export function isUnicast(value: number): boolean {
  const first = value >>> 24
  return first > 0 && first !== 127 && first < 224 && value >>> 16 !== 0xa9fe
}

/**
 * Checks IPv6 prefixes and returns them in canonical form.
 * @throws {BerthError} `invalid_field` that names the item, for example `ipv6_prefixes.0.prefix`
 */
export function parsePrefixes(items: readonly Ipv6Prefix[], rules: PoolRules): Ipv6Prefix[] {
  if (items.length > maxPrefixes)
    throw invalidField('ipv6_prefixes', `ipv6_prefixes: at most ${maxPrefixes} prefixes are allowed`)
  const parsed = items.map((item, index) => parsePrefix(item, `ipv6_prefixes.${index}`, rules))
  const networks = parsed.map(ipv6NetworkOf)
  networks.forEach((network, index) => {
    const other = networks.findIndex((earlier, at) => at < index && overlaps(earlier, network))
    if (other >= 0) throw bad(`ipv6_prefixes.${index}.prefix`, `overlaps the prefix ${networks[other]!.prefix}`)
  })
  return parsed
}

function parsePrefix(item: Ipv6Prefix, at: string, rules: PoolRules): Ipv6Prefix {
  // A longer prefix has too few addresses, because its network address is reserved (subnet-router anycast, RFC 4291).
  const prefixLen = parseLength(item.prefixLen, `${at}.prefix_len`, { min: 16, max: 126 })
  const network = parseIpv6Network(`${item.prefix}/${prefixLen}`)
  if (!network) throw bad(`${at}.prefix`, 'must be an IPv6 network address without host bits')
  if (!isRoutable(network.first))
    throw bad(`${at}.prefix`, 'must be a global (2000::/3) or unique local (fc00::/7) prefix')
  if (overlaps(network, rules.subnet6)) throw bad(`${at}.prefix`, 'is in the private network of the guests')
  return {
    interface: parseInterface(item.interface || rules.defaultInterfaces.ipv6, at, rules),
    address: parseWithin(item.address, `${at}.address`, network),
    prefix: network.prefix,
    prefixLen,
    gateway: item.gateway === '' ? '' : parseOne(item.gateway, `${at}.gateway`),
  }
}

/** True if the address is global unicast (2000::/3) or unique local (fc00::/7). */
function isRoutable(value: bigint): boolean {
  return value >> 125n === 1n || value >> 121n === 0x7en
}

function parseWithin(text: string, at: string, network: Ipv6Network): string {
  if (text === '') return ''
  const address = parseOne(text, at)
  if (!holds(network, parseIpv6(address)!)) throw bad(at, 'must be inside the prefix')
  return address
}

function parseOne(text: string, at: string): string {
  const value = parseIpv6(text)
  if (value === undefined) throw bad(at, 'must be an IPv6 address')
  return formatIpv6(value)
}

function parseInterface(chosen: string, at: string, rules: PoolRules): string {
  if (chosen === '')
    throw bad(`${at}.interface`, 'is required: the host has no default route through a hardware interface')
  if (!rules.interfaces.has(chosen)) throw bad(`${at}.interface`, 'this interface does not exist on the host')
  return chosen
}

function parseLength(value: number, at: string, { min, max }: { min: number; max: number }): number {
  if (!Number.isInteger(value) || value < min || value > max) throw bad(at, `must be an integer from ${min} to ${max}`)
  return value
}

function refuseTwice(values: readonly string[], at: (index: number) => string): void {
  const seen = new Set<string>()
  for (const [index, value] of values.entries()) {
    if (seen.has(value)) throw bad(at(index), `${value} appears more than once`)
    seen.add(value)
  }
}

/** Returns the network of a valid prefix. @throws {BerthError} `internal_error` if the prefix is invalid */
export function ipv6NetworkOf({ prefix, prefixLen }: Pick<Ipv6Prefix, 'prefix' | 'prefixLen'>): Ipv6Network {
  const network = parseIpv6Network(`${prefix}/${prefixLen}`)
  if (!network) throw new BerthError('internal', 'internal_error', `not an IPv6 network: ${prefix}/${prefixLen}`)
  return network
}

function bad(field: string, rule: string): BerthError {
  return invalidField(field, `${field}: ${rule}`)
}
