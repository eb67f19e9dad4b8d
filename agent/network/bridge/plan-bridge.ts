import { macOf, type Subnet } from '../subnet.js'

/** The fields of `ip -json -details address show` that the agent uses. */
export interface ObservedBridge {
  readonly flags: readonly string[]
  readonly address: string
  readonly linkinfo?: { readonly info_kind?: string; readonly info_data?: Readonly<Record<string, unknown>> }
  readonly addr_info: readonly { readonly local?: string; readonly prefixlen?: number }[]
}

/*
 * The bridge has no spanning tree and no forwarding delay. Multicast snooping is off, because the bridge forwards
 * nothing between ports. The bridge does not learn from frames to the bridge group addresses, because these frames skip
 * part of the filter.
 */
const options = { forward_delay: 0, stp_state: 0, mcast_snooping: 0, no_linklocal_learn: 1 }

/** Plans the ip(8) commands that create or correct the bridge. @returns [] if the bridge is correct */
export function planBridge(bridge: string, subnet: Subnet, have: ObservedBridge | undefined): string[] {
  // Without this MAC, the bridge would use the lowest MAC of its ports, which changes as guests start and stop.
  const mac = macOf(subnet.gateway)
  const address = `address add ${subnet.gateway}/${subnet.prefixLength} dev ${bridge}`
  const up = `link set dev ${bridge} up`
  const ownIpv6Alone = `link set dev ${bridge} addrgenmode none`
  if (!have) return [`link add name ${bridge} address ${mac} type bridge ${optionText({})}`, ownIpv6Alone, address, up]
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
  /** Path below /proc/sys. */
  readonly path: string
  readonly value: number
  /** True if a larger value is also acceptable. */
  readonly atLeast?: boolean
  /** True if some kernels or network namespaces do not have the setting. */
  readonly optional?: boolean
}

/** Plans the kernel settings of the bridge. ip_forward comes first, because writing it resets other settings. */
export function planBridgeSysctls(bridge: string): SysctlPlan[] {
  const ipv4 = `net/ipv4/conf/${bridge}`
  const ipv6 = `net/ipv6/conf/${bridge}`
  return [
    { path: 'net/ipv4/ip_forward', value: 1 },
    { path: `${ipv4}/forwarding`, value: 1 },
    { path: `${ipv4}/rp_filter`, value: 1 },
    { path: `${ipv4}/route_localnet`, value: 0 },
    // On the bridge, the host answers ARP only for the bridge's own address, and sends ARP requests only from it.
    { path: `${ipv4}/arp_ignore`, value: 1 },
    { path: `${ipv4}/arp_announce`, value: 2 },
    { path: `${ipv4}/proxy_arp`, value: 0 },
    // The host answers ARP for all guests, without delay, because guests reach one another only through the host.
    { path: `${ipv4}/proxy_arp_pvlan`, value: 1 },
    { path: `net/ipv4/neigh/${bridge}/proxy_delay`, value: 0 },
    { path: `${ipv4}/accept_redirects`, value: 0 },
    { path: `${ipv4}/accept_source_route`, value: 0 },
    { path: `${ipv4}/send_redirects`, value: 0 },
    // On the bridge, the host's only IPv6 address is fe80::1 (`gateway6`). Guests' router advertisements are ignored.
    { path: `${ipv6}/addr_gen_mode`, value: 1, optional: true },
    { path: `${ipv6}/accept_ra`, value: 0, optional: true },
    { path: `${ipv6}/accept_redirects`, value: 0, optional: true },
    // Each guest needs an entry in the neighbour table, whose default size of 1,024 is too small for some hosts.
    ...[4096, 16384, 32768].map((value, index) => ({
      path: `net/ipv4/neigh/default/gc_thresh${index + 1}`,
      value,
      atLeast: true,
      optional: true,
    })),
  ]
}
