import type { DefaultRoute } from '../../host/net/addresses.js'
import type { InterfaceIpv6 } from '../../host/net/ipv6-addresses.js'
import { formatIpv6, holds, parseIpv6, type Ipv6Network } from './ipv6.js'
import { ipv6NetworkOf, type Ipv6Prefix } from './pool.js'

/**
 * Way in which packets reach guests' IPv6 addresses:
 * - routed: the network routes the prefix to the host, and the host forwards packets to guests
 * - proxied: the prefix belongs to the uplink's own segment, and the host answers neighbour solicitations for guests
 * - nat66: the host has an address but no prefix, so guests have private addresses and share the host's address
 */
export type Ipv6Mode = 'routed' | 'proxied' | 'nat66'

/** A network from which guests get addresses, and the way in which packets reach it. */
export interface Ipv6Source {
  readonly mode: Ipv6Mode
  readonly prefix: Ipv6Prefix
  readonly network: Ipv6Network
  /**
   * True if the prefix's interface is gone, or if a found prefix is no longer on its interface. Guests keep their
   * addresses of the prefix, but get no new ones.
   */
  readonly isMissing?: boolean
  /** True if the prefix was found on an interface of the host, and not set through the API. */
  readonly isFound?: boolean
}

export interface Ipv6Facts {
  /** Prefixes set through the API. If there are any, prefixes on interfaces are not used. */
  readonly configured: readonly Ipv6Prefix[]
  /** Prefixes that were found earlier and that guests use (held-prefixes.ts), in order of preference: oldest first. */
  readonly held: readonly Ipv6Prefix[]
  /** True if a guest has an address from the prefix. Only called for prefixes in `held` that the host no longer has. */
  readonly isUsed: (prefix: Ipv6Prefix) => boolean
  /** All addresses of the host; `undefined` if its kernel has no IPv6. */
  readonly addresses: readonly InterfaceIpv6[] | undefined
  readonly interfaces: readonly string[]
  readonly defaultRoute: DefaultRoute | undefined
  /** The default route through an uplink (see `readUplinks`). Prefixes are searched only on its interface. */
  readonly uplink: DefaultRoute | undefined
  /** Private network of guests for NAT66. */
  readonly subnet6: Ipv6Network
  readonly bridge: string
}

export interface Ipv6Plan {
  /** Networks from which guests get addresses. Empty: guests cannot have IPv6. */
  readonly sources: readonly Ipv6Source[]
  /** Reason why `sources` is empty, or why its networks were chosen. The reason can be empty. */
  readonly reason: string
}

/**
 * A found prefix of /112 or longer is ignored. It can be a segment of a few hosts. Randomly chosen addresses would
 * collide with the addresses of these hosts. An operator who owns such a prefix can set it through the API.
 */
const longestFound = 112

/**
 * Chooses the networks from which guests get IPv6 addresses. Uses the first that exists: prefixes set through the API;
 * held prefixes (held-prefixes.ts); a prefix found on an interface now; NAT66.
 */
export function planIpv6(facts: Ipv6Facts): Ipv6Plan {
  const { addresses, configured } = facts
  if (!addresses) return { sources: [], reason: 'the kernel of the host does not support IPv6' }
  if (configured.length > 0) return planConfigured(configured, addresses, facts.interfaces)
  const held = facts.held
    .map((prefix) => planHeld(prefix, addresses))
    .filter(({ isMissing, prefix }) => !isMissing || facts.isUsed(prefix))
  const [kept] = availableSources(held)
  if (kept)
    return {
      sources: held,
      reason: `guests get IPv6 addresses from the prefix that was found on the interface ${kept.prefix.interface}`,
    }
  const { sources, reason } = planFound(addresses, facts)
  return { sources: [...sources, ...held], reason: [reason, ...describeGone(held)].join('; ') }
}

/** Plans a held prefix (held-prefixes.ts). Sets `isMissing` if its interface has no address in the prefix any more. */
function planHeld(prefix: Ipv6Prefix, addresses: readonly InterfaceIpv6[]): Ipv6Source {
  const network = ipv6NetworkOf(prefix)
  const isThere = addresses.some(
    (have) => have.interface === prefix.interface && have.scope === 'global' && covers(have, network),
  )
  return { ...sourceOf(prefix, addresses), isFound: true, ...(isThere ? {} : { isMissing: true }) }
}

function planFound(addresses: readonly InterfaceIpv6[], facts: Ipv6Facts): Ipv6Plan {
  if (!addresses.some(isUsable)) return { sources: [], reason: 'the host has no global IPv6 address' }
  if (!facts.defaultRoute) return { sources: [], reason: 'the host has no IPv6 default route, and no prefix is set' }
  const found = findPrefix(facts)
  if (found)
    return {
      sources: [{ ...found, isFound: true }],
      reason: `guests get IPv6 addresses from the prefix that was found on the interface ${found.prefix.interface}`,
    }
  return {
    sources: [natSource(facts)],
    reason: [
      'the host has an IPv6 address but no prefix for guests: the guests share the address through NAT66',
      ...describeVirtual(facts),
    ].join('; '),
  }
}

/** Explains to operators why the prefix of a virtual interface is not used. Returns [] if there is no such prefix. */
function describeVirtual(facts: Ipv6Facts): string[] {
  const there = findPrefix({ ...facts, uplink: facts.defaultRoute })
  if (!there) return []
  return [
    `the prefix of ${there.prefix.interface} is not used automatically, because any program can create a virtual interface like this one: set the prefix (PUT /routing), or name the interface in network.uplinks`,
  ]
}

function describeGone(held: readonly Ipv6Source[]): string[] {
  const gone = held.filter(({ isMissing }) => isMissing)
  return gone.map(({ prefix }) => `${describePrefix(prefix)}, from which guests have addresses, no longer exists`)
}

function describePrefix({ prefix, prefixLen, interface: device }: Ipv6Prefix): string {
  return `the IPv6 prefix ${prefix}/${prefixLen} of ${device}`
}

/** Returns warnings if found prefixes no longer match the host's addresses and default route. */
export function describeChanges({ sources }: Ipv6Plan, route: DefaultRoute | undefined): string[] {
  const found = sources.filter(({ isFound }) => isFound)
  const gone = describeGone(found)
  const [used] = availableSources(sources)
  if (gone.length > 0 && used) gone.push(`new addresses are taken from ${describePrefix(used.prefix)}`)
  if (!used?.isFound || !route || route.interface === used.prefix.interface) return gone
  return [
    ...gone,
    `addresses are still taken from ${describePrefix(used.prefix)}, but the default route of the host uses ${route.interface} now: set prefixes (PUT /routing) to change that`,
  ]
}

function planConfigured(
  configured: readonly Ipv6Prefix[],
  addresses: readonly InterfaceIpv6[],
  interfaces: readonly string[],
): Ipv6Plan {
  const sources = configured.map((prefix) => {
    const source = sourceOf(prefix, addresses)
    return interfaces.includes(prefix.interface) ? source : { ...source, isMissing: true }
  })
  return { sources, reason: describeMissing(configured, interfaces).join('; ') }
}

/** Returns one warning for each interface that a prefix names but the host does not have. */
export function describeMissing(prefixes: readonly Ipv6Prefix[], interfaces: readonly string[]): string[] {
  const named = new Set(prefixes.map((prefix) => prefix.interface))
  const missing = [...named].filter((device) => !interfaces.includes(device))
  return missing.map((device) => `IPv6 prefixes are configured for ${device}, which does not exist`)
}

/** Returns the networks from which guests can get new addresses. */
export function availableSources(sources: readonly Ipv6Source[]): Ipv6Source[] {
  return sources.filter(({ isMissing }) => !isMissing)
}

/** Returns the prefix as a source of addresses. On-link prefixes are proxied at their interface, others are routed. */
function sourceOf(prefix: Ipv6Prefix, addresses: readonly InterfaceIpv6[]): Ipv6Source {
  const network = ipv6NetworkOf(prefix)
  const onLink = addresses.some(
    (have) => have.interface === prefix.interface && have.prefixLength < 128 && covers(have, network),
  )
  return { mode: onLink ? 'proxied' : 'routed', prefix, network }
}

function findPrefix({ addresses = [], uplink, bridge }: Ipv6Facts): Ipv6Source | undefined {
  const have = addresses.find(
    (address) =>
      isUsable(address) &&
      address.interface === uplink?.interface &&
      address.interface !== bridge &&
      address.prefixLength < longestFound,
  )
  if (!have) return undefined
  return sourceOf(prefixOf(have, canonical(uplink?.gateway)), addresses)
}

function natSource({ defaultRoute, subnet6 }: Ipv6Facts): Ipv6Source {
  const { prefix, prefixLength } = subnet6
  const { interface: uplink = '', gateway } = defaultRoute ?? {}
  return {
    mode: 'nat66',
    prefix: { interface: uplink, address: '', prefix, prefixLen: prefixLength, gateway: canonical(gateway) },
    network: subnet6,
  }
}

/** Returns the canonical text of an address, or '' if the text is not an address. */
function canonical(text = ''): string {
  const value = parseIpv6(text)
  return value === undefined ? '' : formatIpv6(value)
}

function prefixOf({ address, interface: device, prefixLength }: InterfaceIpv6, gateway: string): Ipv6Prefix {
  const mask = BigInt(128 - prefixLength)
  const own = parseIpv6(address)!
  const base = (own >> mask) << mask
  return {
    interface: device,
    address: formatIpv6(own),
    prefix: formatIpv6(base),
    prefixLen: prefixLength,
    gateway,
  }
}

function covers({ address, prefixLength }: InterfaceIpv6, network: Ipv6Network): boolean {
  const shift = BigInt(128 - prefixLength)
  const own = parseIpv6(address)!
  return own >> shift === network.first >> shift && network.prefixLength >= prefixLength
}

/** True if the address is permanent and global; unique local addresses also count as global. */
function isUsable({ scope, temporary, deprecated, tentative }: InterfaceIpv6): boolean {
  return scope === 'global' && !temporary && !deprecated && !tentative
}

/** Finds the network that contains a guest's address. `undefined`: none of `sources` contains it any more. */
export function findSource(sources: readonly Ipv6Source[], address: string): Ipv6Source | undefined {
  const value = parseIpv6(address)
  return sources.find(({ network }) => value !== undefined && holds(network, value))
}
