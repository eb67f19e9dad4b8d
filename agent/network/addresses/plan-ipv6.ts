import type { DefaultRoute } from '../../host/net/addresses.js'
import type { InterfaceIpv6 } from '../../host/net/ipv6-addresses.js'
import { formatIpv6, holds, parseIpv6, type Ipv6Network } from './ipv6.js'
import { ipv6NetworkOf, type Ipv6Prefix } from './pool.js'

/**
 * How guests' IPv6 addresses are reached:
 * - routed: the network routes the prefix to the host, which forwards it
 * - proxied: the prefix is on the uplink's own segment, and the host answers neighbour solicitations for guests
 * - nat66: the host has addresses but no prefix; guests have private addresses and share the host's
 */
export type Ipv6Mode = 'routed' | 'proxied' | 'nat66'

/** A network that guests' addresses are taken from, and how it is reached. */
export interface Ipv6Source {
  readonly mode: Ipv6Mode
  readonly prefix: Ipv6Prefix
  readonly network: Ipv6Network
  /**
   * True if the prefix's interface, or the found prefix itself, no longer exists. Guests keep their addresses of it,
   * and no new ones are assigned.
   */
  readonly isMissing?: boolean
  /** True if the prefix was found on an interface of the host instead of being set. */
  readonly isFound?: boolean
}

export interface Ipv6Facts {
  /** Set prefixes, from the journal; they take precedence over found ones. */
  readonly configured: readonly Ipv6Prefix[]
  /** Prefixes found earlier and in use, the oldest first; they take precedence over newly found ones. */
  readonly held: readonly Ipv6Prefix[]
  /** True if a guest has an address of the prefix; called only for held prefixes that no longer exist. */
  readonly isUsed: (prefix: Ipv6Prefix) => boolean
  /** All addresses of the host; `undefined`: its kernel has no IPv6. */
  readonly addresses: readonly InterfaceIpv6[] | undefined
  /** Names of all interfaces. */
  readonly interfaces: readonly string[]
  readonly defaultRoute: DefaultRoute | undefined
  /** The default route through an interface on which a prefix may be found (see `readUplinks`). */
  readonly uplink: DefaultRoute | undefined
  /** Guests' private network for nat66. */
  readonly subnet6: Ipv6Network
  readonly bridge: string
}

export interface Ipv6Plan {
  /** Empty: guests cannot have IPv6. */
  readonly sources: readonly Ipv6Source[]
  /** Reason why there are no sources, or why these were chosen; may be empty. */
  readonly reason: string
}

/**
 * A found prefix of /112 or longer is a segment of a few hosts, whose addresses random choices would collide with. An
 * operator who owns such a prefix can set it.
 */
const longestFound = 112

/** Sources of guests' IPv6: set prefixes, otherwise held ones, otherwise a found one, otherwise NAT66. */
export function planIpv6(facts: Ipv6Facts): Ipv6Plan {
  const { addresses, configured } = facts
  if (!addresses) return { sources: [], reason: 'the kernel of the host has no IPv6' }
  if (configured.length > 0) return planConfigured(configured, addresses, facts.interfaces)
  const held = facts.held
    .map((prefix) => planHeld(prefix, addresses))
    .filter(({ isMissing, prefix }) => !isMissing || facts.isUsed(prefix))
  const [kept] = availableSources(held)
  if (kept) return { sources: held, reason: `prefix found on ${kept.prefix.interface}` }
  const { sources, reason } = planFound(addresses, facts)
  return { sources: [...sources, ...held], reason: [reason, ...describeGone(held)].join('; ') }
}

/** A held prefix counts as existing only on the interface on which it was first found. */
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
  if (found) return { sources: [{ ...found, isFound: true }], reason: `prefix found on ${found.prefix.interface}` }
  return {
    sources: [natSource(facts)],
    reason: [
      'the host has an IPv6 address but no prefix for guests: they share it through NAT66',
      ...describeVirtual(facts),
    ].join('; '),
  }
}

/** Explains why a prefix on a virtual interface, which an operator may expect to be found, was not. */
function describeVirtual(facts: Ipv6Facts): string[] {
  const there = findPrefix({ ...facts, uplink: facts.defaultRoute })
  if (!there) return []
  return [
    `the prefix of ${there.prefix.interface} is not used automatically, since any program can create such an interface: set it (PUT /routing), or name the interface in network.uplinks`,
  ]
}

function describeGone(held: readonly Ipv6Source[]): string[] {
  const gone = held.filter(({ isMissing }) => isMissing)
  return gone.map(({ prefix }) => `${describePrefix(prefix)}, from which guests have addresses, no longer exists`)
}

function describePrefix({ prefix, prefixLen, interface: device }: Ipv6Prefix): string {
  return `the IPv6 prefix ${prefix}/${prefixLen} of ${device}`
}

/** Warnings for an operator: the host no longer matches what its prefix was found on. */
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

/** One warning for each missing interface that prefixes name. */
export function describeMissing(prefixes: readonly Ipv6Prefix[], interfaces: readonly string[]): string[] {
  const named = new Set(prefixes.map((prefix) => prefix.interface))
  const missing = [...named].filter((device) => !interfaces.includes(device))
  return missing.map((device) => `IPv6 prefixes are configured for ${device}, which does not exist`)
}

/** Sources that new addresses can be taken from. */
export function availableSources(sources: readonly Ipv6Source[]): Ipv6Source[] {
  return sources.filter(({ isMissing }) => !isMissing)
}

/** A prefix on its interface's own segment is proxied; any other must be routed to the host by the network. */
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

/** Returns '' if the text is not an address. */
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

/** True if the address is global (or unique local) and permanent. */
function isUsable({ scope, temporary, deprecated, tentative }: InterfaceIpv6): boolean {
  return scope === 'global' && !temporary && !deprecated && !tentative
}

/** The source that a guest's address belongs to; `undefined` if it no longer belongs to any. */
export function findSource(sources: readonly Ipv6Source[], address: string): Ipv6Source | undefined {
  const value = parseIpv6(address)
  return sources.find(({ network }) => value !== undefined && holds(network, value))
}
