import type { DefaultRoute } from '../../host/addresses.js'
import type { InterfaceIpv6 } from '../../host/ipv6-addresses.js'
import { formatIpv6, holds, parseIpv6, type Ipv6Network } from './ipv6.js'
import { networkOf, type Ipv6Prefix } from './pool.js'

/**
 * How guests' IPv6 addresses are reached:
 * - routed: the network sends the prefix to the host, which only has to pass it on
 * - proxied: the prefix is on the uplink's own segment: the host answers neighbour solicitations for guests
 * - nat66: the host has addresses but no prefix: guests have private ones and leave in the host's name
 */
export type Ipv6Mode = 'routed' | 'proxied' | 'nat66'

export interface Ipv6Source {
  readonly mode: Ipv6Mode
  readonly prefix: Ipv6Prefix
  readonly network: Ipv6Network
  /**
   * The interface of a prefix that is set is not there, or what was found is not any more: what guests have of it stays
   * theirs, and none is given.
   */
  readonly isMissing?: boolean
  /** Nobody set it: it was on an interface of the host. */
  readonly isFound?: boolean
}

export interface Ipv6Facts {
  /** From the journal; they come before any that are found. */
  readonly configured: readonly Ipv6Prefix[]
  /** Those that were found before and given of, the oldest first: they come before any that are found now. */
  readonly held: readonly Ipv6Prefix[]
  /** Whether a guest has an address of it: asked of held ones that are gone. */
  readonly isUsed: (prefix: Ipv6Prefix) => boolean
  /** All of the host; `undefined`: its kernel has no IPv6. */
  readonly addresses: readonly InterfaceIpv6[] | undefined
  /** Names of all the host has. */
  readonly interfaces: readonly string[]
  readonly defaultRoute: DefaultRoute | undefined
  /** The default route of an interface that a prefix may be found on: no other program makes one like it. */
  readonly uplink: DefaultRoute | undefined
  /** Private network of guests for nat66. */
  readonly subnet6: Ipv6Network
  readonly bridge: string
}

export interface Ipv6Plan {
  /** Empty: guests can have no IPv6. */
  readonly sources: readonly Ipv6Source[]
  /** Why there are none, or why these; empty: nothing to say. */
  readonly reason: string
}

/**
 * A found prefix this long or longer is a segment of a few hosts, whose addresses a random choice would hit;
 * an operator who owns one sets it.
 */
const longestFound = 112

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

/** Of an interface that was not there when the first address was given nothing is found as long as this one is. */
function planHeld(prefix: Ipv6Prefix, addresses: readonly InterfaceIpv6[]): Ipv6Source {
  const network = networkOf(prefix)
  const isThere = addresses.some(
    (have) => have.interface === prefix.interface && have.scope === 'global' && covers(have, network),
  )
  return { ...sourceOf(prefix, addresses), isFound: true, ...(isThere ? {} : { isMissing: true }) }
}

function planFound(addresses: readonly InterfaceIpv6[], facts: Ipv6Facts): Ipv6Plan {
  if (!addresses.some(isUsable)) return { sources: [], reason: 'the host has no global IPv6 address' }
  if (!facts.defaultRoute)
    return { sources: [], reason: 'the host has no IPv6 default route, and no prefix is set' }
  const found = findPrefix(facts)
  if (found)
    return { sources: [{ ...found, isFound: true }], reason: `prefix found on ${found.prefix.interface}` }
  return {
    sources: [natSource(facts)],
    reason: [
      'the host has an IPv6 address but no prefix for guests: they share it through NAT66',
      ...describeVirtual(facts),
    ].join('; '),
  }
}

/** Where an operator has a prefix that he might expect to be found. */
function describeVirtual(facts: Ipv6Facts): string[] {
  const there = findPrefix({ ...facts, uplink: facts.defaultRoute })
  if (!there) return []
  return [
    `the prefix of ${there.prefix.interface} is not taken by itself, since any program makes such an interface: ` +
      'set it (PUT /routing), or name the interface in network.uplinks',
  ]
}

function describeGone(held: readonly Ipv6Source[]): string[] {
  const gone = held.filter(({ isMissing }) => isMissing)
  return gone.map(
    ({ prefix }) => `${describePrefix(prefix)}, which guests have addresses of, is not there any more`,
  )
}

function describePrefix({ prefix, prefixLen, interface: device }: Ipv6Prefix): string {
  return `the IPv6 prefix ${prefix}/${prefixLen} of ${device}`
}

/** What a person should look at: the host is another than when its prefix was found. */
export function describeChanges({ sources }: Ipv6Plan, route: DefaultRoute | undefined): string[] {
  const found = sources.filter(({ isFound }) => isFound)
  const gone = describeGone(found)
  const [used] = availableSources(sources)
  if (gone.length > 0 && used) gone.push(`new addresses are of ${describePrefix(used.prefix)}`)
  if (!used?.isFound || !route || route.interface === used.prefix.interface) return gone
  return [
    ...gone,
    `addresses are given of ${describePrefix(used.prefix)} as before, but the host's way out is ${route.interface} now: ` +
      'set prefixes (PUT /routing) to change that',
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

/** One for each interface of prefixes that is not there. */
export function describeMissing(prefixes: readonly Ipv6Prefix[], interfaces: readonly string[]): string[] {
  const named = new Set(prefixes.map((prefix) => prefix.interface))
  const missing = [...named].filter((device) => !interfaces.includes(device))
  return missing.map((device) => `IPv6 prefixes belong on ${device}, which is not there`)
}

/** Those that addresses can be given of. */
export function availableSources(sources: readonly Ipv6Source[]): Ipv6Source[] {
  return sources.filter(({ isMissing }) => !isMissing)
}

/** On the segment of its interface a prefix is proxied, elsewhere someone must route it to the host. */
function sourceOf(prefix: Ipv6Prefix, addresses: readonly InterfaceIpv6[]): Ipv6Source {
  const network = networkOf(prefix)
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

/** Empty for what is no address. */
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

/** Of the whole world or of the site, and there to stay. */
function isUsable({ scope, temporary, deprecated, tentative }: InterfaceIpv6): boolean {
  return scope === 'global' && !temporary && !deprecated && !tentative
}

/** Where an address that a guest has belongs now; `undefined`: to nothing any more. */
export function findSource(sources: readonly Ipv6Source[], address: string): Ipv6Source | undefined {
  const value = parseIpv6(address)
  return sources.find(({ network }) => value !== undefined && holds(network, value))
}
