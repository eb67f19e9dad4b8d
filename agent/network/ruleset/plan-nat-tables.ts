import { chain, hook, inTable, map, rule, set, setMark, type Item } from './plan-items.js'

export interface NatTablesPlan {
  readonly table: string
  readonly bridge: string
  readonly subnet: string
  readonly subnet6: string
}

/*
 * Every local address of the host serves the mappings, for others, for itself and for guests; loopback is
 * left out, as a packet from 127.0.0.0/8 cannot leave for the bridge without route_localnet. A public address
 * is its guest's wholly and comes before mappings. Guests see the client's address, also another guest's,
 * whose answers come back through the host (proxy_arp_pvlan); a guest that reaches itself would drop its own
 * address as a source and sees the gateway.
 *
 * Single ports are a hash: a change costs the same however many there are. Ranges are intervals, one element
 * each, and keep the port: nft has no arithmetic to shift one. (A range that moves is held as single ports.)
 */
export function planNatTables(plan: NatTablesPlan): string[] {
  return [...planIpv4Nat(plan), ...planIpv6Nat(plan)]
}

function planIpv4Nat({ table, bridge, subnet }: NatTablesPlan): string[] {
  const leaving = `ip saddr ${subnet} oifname != "${bridge}"`
  return inTable('ip', table, [
    ...['public_in', 'public_out'].map((name) => map(name, 'type ipv4_addr : ipv4_addr;')),
    ...planMappings('ip', bridge),
    rule('prerouting', 'dnat ip to ip daddr map @public_in'),
    rule('prerouting', 'fib daddr type local jump mapped'),
    rule('output', 'dnat ip to ip daddr map @public_in'),
    rule('output', 'ip daddr != 127.0.0.0/8 fib daddr type local jump mapped'),
    rule('postrouting', 'ip saddr . ip daddr @self masquerade'),
    rule('postrouting', `${leaving} snat ip to ip saddr map @public_out`),
    rule('postrouting', `${leaving} masquerade`),
  ])
}

function planIpv6Nat({ table, bridge, subnet6 }: NatTablesPlan): string[] {
  return inTable('ip6', table, [
    ...planMappings('ip6', bridge),
    rule('prerouting', 'fib daddr type local jump mapped'),
    rule('output', 'ip6 daddr != ::1 fib daddr type local jump mapped'),
    rule('postrouting', 'ip6 saddr . ip6 daddr @self6 masquerade'),
    rule('postrouting', `ip6 saddr ${subnet6} oifname != "${bridge}" masquerade`),
  ])
}

function planMappings(ip: 'ip' | 'ip6', bridge: string): Item[] {
  const [address, suffix] = ip === 'ip' ? ['ipv4_addr', ''] : ['ipv6_addr', '6']
  const port = 'inet_proto . inet_service'
  const asked = 'meta l4proto . th dport'
  return [
    set(`self${suffix}`, `type ${address} . ${address};`),
    map(`ports${suffix}`, `type ${port} : ${address} . inet_service;`),
    map(`host_ports${suffix}`, `type ${address} . ${port} : ${address} . inet_service;`),
    map(`port_ranges${suffix}`, `type ${address} . ${port} : ${address}; flags interval;`),
    hook('prerouting', 'nat', -100),
    hook('output', 'nat', -100),
    hook('postrouting', 'nat', 100),
    // Later than the mappings.
    hook('prerouting', 'filter', -90, 'hairpin'),
    rule('hairpin', `iifname "${bridge}" ct status dnat ${setMark('hairpin')}`),
    chain('mapped'),
    rule('mapped', `dnat ${ip} to ${ip} daddr . ${asked} map @host_ports${suffix}`),
    rule('mapped', `dnat ${ip} to ${asked} map @ports${suffix}`),
    rule('mapped', `dnat ${ip} to ${ip} daddr . ${asked} map @port_ranges${suffix}`),
  ]
}
