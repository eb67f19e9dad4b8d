import { macOf, type Subnet } from '../subnet.js'

/** The part of `ip -json -details address show` that matters here. */
export interface ObservedBridge {
  readonly flags: readonly string[]
  readonly address: string
  readonly linkinfo?: { readonly info_kind?: string; readonly info_data?: Readonly<Record<string, unknown>> }
  readonly addr_info: readonly { readonly local?: string; readonly prefixlen?: number }[]
}

/*
 * No spanning tree and no delay before a port forwards. No multicast snooping: nothing is forwarded between
 * ports. Nothing is learnt from frames to the bridge group addresses, which skip part of the filter.
 */
const options = { forward_delay: 0, stp_state: 0, mcast_snooping: 0, no_linklocal_learn: 1 }

/** Commands of ip(8) that make the bridge; [] when it is right. */
export function planBridge(bridge: string, subnet: Subnet, have: ObservedBridge | undefined): string[] {
  // An address of its own: a bridge without takes the lowest of its ports, and changes when guests come and go.
  const mac = macOf(subnet.gateway)
  const address = `address add ${subnet.gateway}/${subnet.prefixLength} dev ${bridge}`
  const up = `link set dev ${bridge} up`
  const ownIpv6Alone = `link set dev ${bridge} addrgenmode none`
  if (!have)
    return [`link add name ${bridge} address ${mac} type bridge ${optionText({})}`, ownIpv6Alone, address, up]
  const wrong = optionText(have.linkinfo?.info_data ?? {})
  return [
    ...(wrong === '' ? [] : [`link set dev ${bridge} type bridge ${wrong}`]),
    ...(have.address === mac ? [] : [`link set dev ${bridge} address ${mac}`]),
    ...(hasAddress(have, subnet) ? [] : [address]),
    ...(have.flags.includes('UP') ? [] : [up]),
  ]
}

function optionText(have: Readonly<Record<string, unknown>>): string {
  const wrong = Object.entries(options).filter(([name, value]) => have[name] !== value)
  return wrong.map(([name, value]) => `${name} ${value}`).join(' ')
}

function hasAddress({ addr_info }: ObservedBridge, { gateway, prefixLength }: Subnet): boolean {
  return addr_info.some(({ local, prefixlen }) => local === gateway && prefixlen === prefixLength)
}

export interface SysctlPlan {
  /** Below /proc/sys. */
  readonly path: string
  readonly value: number
  /** A larger value is right as well. */
  readonly atLeast?: boolean
  /** May be missing: another kernel, a module not loaded, a network namespace. */
  readonly optional?: boolean
}

/** Kernel settings the bridge needs; ip_forward first, for writing it resets others. */
export function planSysctls(bridge: string): SysctlPlan[] {
  const ipv4 = `net/ipv4/conf/${bridge}`
  const ipv6 = `net/ipv6/conf/${bridge}`
  return [
    { path: 'net/ipv4/ip_forward', value: 1 },
    { path: `${ipv4}/forwarding`, value: 1 },
    { path: `${ipv4}/rp_filter`, value: 1 },
    { path: `${ipv4}/route_localnet`, value: 0 },
    // The gateway answers for its own address alone, and never asks in the name of another of the host's.
    { path: `${ipv4}/arp_ignore`, value: 1 },
    { path: `${ipv4}/arp_announce`, value: 2 },
    { path: `${ipv4}/proxy_arp`, value: 0 },
    // Guests find one another at the gateway only, at once: what answers another guest passes the host.
    { path: `${ipv4}/proxy_arp_pvlan`, value: 1 },
    { path: `net/ipv4/neigh/${bridge}/proxy_delay`, value: 0 },
    { path: `${ipv4}/accept_redirects`, value: 0 },
    { path: `${ipv4}/accept_source_route`, value: 0 },
    { path: `${ipv4}/send_redirects`, value: 0 },
    // The host has no address there but a gateway that is given, and believes no guest's router advertisement.
    { path: `${ipv6}/addr_gen_mode`, value: 1, optional: true },
    { path: `${ipv6}/accept_ra`, value: 0, optional: true },
    { path: `${ipv6}/accept_redirects`, value: 0, optional: true },
    // One neighbour per guest: the default of 1,024 ends in unreachable guests.
    ...[4096, 16384, 32768].map((value, index) => ({
      path: `net/ipv4/neigh/default/gc_thresh${index + 1}`,
      value,
      atLeast: true,
      optional: true,
    })),
  ]
}
