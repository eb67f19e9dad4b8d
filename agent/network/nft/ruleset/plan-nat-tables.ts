import { chain, hook, inTable, map, rule, set, setMark, type Item } from './plan-items.js'

export interface NatTablesPlan {
  readonly table: string
  readonly bridge: string
  readonly subnet: string
  readonly subnet6: string
}

/*
 * Outside clients, the host and guests can use a mapping on every address of the host except loopback. Without
 * route_localnet, packets from 127.0.0.0/8 cannot be forwarded to the bridge. A public address belongs entirely to its
 * guest and takes precedence over mappings. Guests see the client's address, even if the client is another guest,
 * because answers return through the host (proxy_arp_pvlan). A guest that connects to itself sees the bridge's address,
 * because it would drop packets from its own address.
 *
 * Single ports are in a hash, so the cost of a change does not depend on their number. A range is one interval and
 * keeps the port numbers, because nft cannot add an offset. If guest and host ports differ, single ports are stored.
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
    // This chain runs later (priority -90) than the mappings (-100), so that it sees mapped packets.
    hook('prerouting', 'filter', -90, 'hairpin'),
    rule('hairpin', `iifname "${bridge}" ct status dnat ${setMark('hairpin')}`),
    chain('mapped'),
    rule('mapped', `dnat ${ip} to ${ip} daddr . ${asked} map @host_ports${suffix}`),
    rule('mapped', `dnat ${ip} to ${asked} map @ports${suffix}`),
    rule('mapped', `dnat ${ip} to ${ip} daddr . ${asked} map @port_ranges${suffix}`),
  ]
}
