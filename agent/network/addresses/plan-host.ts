import type { HostMark } from './mark.js'

/*
 * This module plans the ip(8) commands for guests' addresses. Addresses, devices and MACs were validated on input. In
 * addition, ip.ts refuses commands with unexpected characters.
 */

/** A guest's IPv6 address, its MAC, and the interface on which the host answers neighbour solicitations for it. */
export interface GuestIpv6 {
  readonly address: string
  readonly mac: string
  /** Interface on whose segment the host answers neighbour solicitations for the address; empty: no interface. */
  readonly proxyOn: string
}

export interface PlacedIpv4 {
  readonly address: string
  readonly interface: string
}

export interface ObservedIpv4 extends PlacedIpv4 {
  /** True if the address has this agent's mark, which means that this agent added it. */
  readonly isOurs: boolean
}

export interface Ipv4HostPlan {
  readonly commands: string[]
  /** Addresses to announce to the segment. */
  readonly added: PlacedIpv4[]
}

/**
 * Plans public addresses on the host's interfaces, each as a /32 with the agent's mark. An address that another program
 * has added stays unchanged.
 */
export function planHostIpv4(want: readonly PlacedIpv4[], have: readonly ObservedIpv4[], mark: HostMark): Ipv4HostPlan {
  const wanted = new Map(want.map((item) => [item.address, item.interface]))
  const foreign = new Set(have.flatMap((item) => (item.isOurs ? [] : [item.address])))
  const ours = have.filter(({ isOurs }) => isOurs)
  const isRight = (item: PlacedIpv4): boolean =>
    wanted.get(item.address) === item.interface && !foreign.has(item.address)
  const there = new Set(ours.filter(isRight).map(({ address }) => address))
  const added = want.filter(({ address }) => !foreign.has(address) && !there.has(address))
  const removed = ours.filter((item) => !isRight(item))
  return {
    commands: [...removed.map(planAddressRemoval), ...added.map((item) => planAddress(item, mark))],
    added,
  }
}

function planAddress({ address, interface: device }: PlacedIpv4, { metric }: HostMark): string {
  return `address replace ${address}/32 dev ${device} metric ${metric}`
}

export function planAddressRemoval({ address, interface: device }: PlacedIpv4): string {
  return `address delete ${address}/32 dev ${device}`
}

/** The kernel's entries for guests' IPv6 addresses, as read from the host. */
export interface ObservedIpv6 {
  /** Guests' addresses for which this agent has added a route to the bridge. */
  readonly routes: ReadonlySet<string>
  /** MACs of permanent neighbours on the bridge, by address. */
  readonly neighbours: ReadonlyMap<string, string>
  /** Proxy entries of this agent, each as the text `address interface`. */
  readonly proxies: ReadonlySet<string>
}

export interface Ipv6HostPlace {
  readonly bridge: string
  readonly mark: HostMark
  /** True if an interface is the host's end of a guest's interface. */
  readonly isGuestDevice: (name: string) => boolean
}

/**
 * Plans three entries for each address: a route to the bridge; a permanent neighbour entry with the guest's MAC, so
 * that the host need not ask for it; and a proxy entry if `proxyOn` names an interface.
 */
export function planHostIpv6(want: readonly GuestIpv6[], have: ObservedIpv6, place: Ipv6HostPlace): string[] {
  const wanted = new Map(want.map((item) => [item.address, item]))
  const proxies = new Set(want.map(({ address, proxyOn }) => `${address} ${proxyOn}`))
  // Proxy entries are removed first and added last, so that the host never answers for unreachable addresses.
  return [
    ...[...have.proxies].filter((key) => !proxies.has(key)).map(planProxyRemoval),
    ...[...have.routes].filter((address) => !wanted.has(address)).map((at) => planRouteRemoval(at, place)),
    ...[...have.neighbours.keys()]
      .filter((address) => !wanted.has(address))
      .map((address) => `neighbour delete ${address} dev ${place.bridge}`),
    ...want.flatMap((item) => planMissing(item, have, place)),
  ]
}

function planMissing(item: GuestIpv6, have: ObservedIpv6, place: Ipv6HostPlace): string[] {
  const [neighbour = '', route = '', proxy] = planGuestIpv6(item, place)
  return [
    ...(have.neighbours.get(item.address) === item.mac ? [] : [neighbour]),
    ...(have.routes.has(item.address) ? [] : [route]),
    ...(proxy === undefined || have.proxies.has(`${item.address} ${item.proxyOn}`) ? [] : [proxy]),
  ]
}

/** Plans the neighbour, route and proxy entry of one address, even if they already exist. */
export function planGuestIpv6({ address, mac, proxyOn }: GuestIpv6, place: Ipv6HostPlace): string[] {
  const { bridge, mark } = place
  return [
    `neighbour replace ${address} lladdr ${mac} dev ${bridge} nud permanent`,
    `route replace ${address}/128 dev ${bridge} protocol ${mark.protocol}`,
    ...(proxyOn === '' ? [] : [`neighbour replace proxy ${address} dev ${proxyOn} protocol ${mark.protocol}`]),
  ]
}

/** Plans the removal of the entries that `planGuestIpv6` adds. */
export function planGuestIpv6Removal({ address, proxyOn }: GuestIpv6, place: Ipv6HostPlace): string[] {
  return [
    ...(proxyOn === '' ? [] : [planProxyRemoval(`${address} ${proxyOn}`)]),
    planRouteRemoval(address, place),
    `neighbour delete ${address} dev ${place.bridge}`,
  ]
}

/**
 * Plans which addresses to announce on which interface: those that the host has begun to answer for.
 * @param known interface on which the host already answers for an address, by address
 * @returns addresses by interface
 */
export function planIpv6Announcements(
  want: readonly GuestIpv6[],
  known: ReadonlyMap<string, string>,
): ReadonlyMap<string, string[]> {
  const announced = new Map<string, string[]>()
  for (const { address, proxyOn } of want) {
    if (proxyOn === '' || known.get(address) === proxyOn) continue
    const addresses = announced.get(proxyOn) ?? []
    announced.set(proxyOn, addresses)
    addresses.push(address)
  }
  return announced
}

function planRouteRemoval(address: string, { bridge, mark }: Ipv6HostPlace): string {
  return `route delete ${address}/128 dev ${bridge} protocol ${mark.protocol}`
}

/** @param key text of the form `address interface` */
export function planProxyRemoval(key: string): string {
  const [address, device] = key.split(' ')
  return `neighbour delete proxy ${address} dev ${device}`
}

/** Link-local address of the bridge: the guests' gateway. It is the same on all hosts, so that guests can move. */
export const gateway6 = 'fe80::1'

/** Plans the bridge's link-local address. [] if the bridge already has it. */
export function planGateway6(
  bridge: string,
  have: readonly { readonly local?: string; readonly prefixlen?: number }[],
): string[] {
  const isThere = have.some(({ local, prefixlen }) => local === gateway6 && prefixlen === 64)
  return isThere ? [] : [`address add ${gateway6}/64 dev ${bridge} nodad`]
}

export interface Ipv6Setting {
  /** Path below /proc/sys. */
  readonly path: string
  readonly value: number
  /** True if the interface can be deleted before the setting is written. A missing interface is then not an error. */
  readonly optional?: true
}

/**
 * Plans kernel settings, in the order in which they must be written. accept_ra = 2 precedes `forwarding`, because a
 * forwarding interface with accept_ra = 1 accepts no router advertisements and loses its default routes (addrconf.c).
 * @param advertised interfaces that have accept_ra = 1
 * @param proxied interfaces on which the host answers for guests
 */
export function planIpv6Settings(
  bridge: string,
  { advertised, proxied }: { advertised: readonly string[]; proxied: readonly string[] },
): Ipv6Setting[] {
  const at = (device: string, name: string): string => `net/ipv6/conf/${device}/${name}`
  return [
    { path: at(bridge, 'disable_ipv6'), value: 0 },
    ...advertised
      .filter((device) => device !== bridge)
      .map((device) => ({ path: at(device, 'accept_ra'), value: 2, optional: true as const })),
    { path: at('all', 'forwarding'), value: 1 },
    ...proxied.flatMap((device) => [
      { path: at(device, 'proxy_ndp'), value: 1, optional: true as const },
      // The host must answer for guests at once. The default delay of 0.8 s would let other computers answer first.
      { path: `net/ipv6/neigh/${device}/proxy_delay`, value: 0, optional: true as const },
    ]),
  ]
}

/**
 * True if `planIpv6Settings` may have changed the setting at this path, and no guest needs it any more.
 * @param needed the settings that guests need now
 */
export function isUnusedSetting(path: string, needed: readonly Ipv6Setting[]): boolean {
  if (!/^net\/ipv6\/(conf\/[^/]+\/(forwarding|accept_ra|proxy_ndp)|neigh\/[^/]+\/proxy_delay)$/.test(path)) return false
  // accept_ra = 2 is needed while the host forwards for any guest. Without it, the host would lose its default routes.
  if (path.endsWith('/accept_ra')) return needed.length === 0
  return needed.every((setting) => setting.path !== path)
}
