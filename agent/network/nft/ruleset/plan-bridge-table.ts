import { macOf } from '../../subnet.js'
import { chain, hasMark, hook, inTable, packetSet, rule, set, setMark, type Item } from './plan-items.js'

export interface BridgeTablePlan {
  readonly table: string
  readonly interfacePrefix: string
  readonly gateway: string
}

/*
 * Plans the filter for frames, which runs before the bridge learns or forwards anything. Tagged frames and unknown
 * types are dropped, and guests never reach one another on layer 2. A guest that was moved to another bridge reaches
 * nobody. `ether type` is the type of the frame; `meta protocol` would be the type inside a VLAN tag. Frames to the
 * bridge group addresses skip prerouting, so the hook `input` drops them. Not every kernel can match bridge names
 * (NFT_BRIDGE_META). The rules therefore recognize guests' devices by prefix and digit, and the bridge by its MAC.
 */
export function planBridgeTable({ table, interfacePrefix, gateway }: BridgeTablePlan): string[] {
  return inTable('bridge', table, [
    set('guests', 'type ifname . ether_addr . ipv4_addr;'),
    set('guests6', 'type ifname . ether_addr . ipv6_addr;'),
    set('solicitors', 'typeof iifname . @th,208,48;'),
    packetSet('forged', ['ifname'], { timeout: '1h', counter: true }),
    guestDevices(interfacePrefix),
    hook('prerouting', 'filter', -300),
    hook('input', 'filter', -300),
    hook('forward', 'filter', -300),
    chain('from_guest'),
    rule('prerouting', 'iifname @guest_devices jump from_guest'),
    rule('from_guest', setMark('bridged')),
    rule('from_guest', `ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 ether daddr != ${macOf(gateway)} drop`),
    ...planArp(),
    ...planIpv4(),
    ...planIpv6(),
    rule(
      'from_guest',
      'ether type vmap { arp : jump arp_from_guest, ip : jump ipv4_from_guest, ip6 : jump ipv6_from_guest }',
    ),
    // Packets from 0.0.0.0 or fe80::/10 (a guest without an address) are dropped here, but not counted as forged.
    rule('from_guest', 'ip saddr != 0.0.0.0 update @forged { iifname } drop'),
    rule('from_guest', 'ip6 saddr != fe80::/10 update @forged { iifname } drop'),
    rule('from_guest', 'drop'),
    rule('input', 'iifname @guest_devices ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop'),
    rule('forward', `iifname @guest_devices ${hasMark('hairpin')} accept`),
    rule('forward', 'iifname @guest_devices drop'),
    rule('forward', 'oifname @guest_devices drop'),
  ])
}

/** Returns the set `guest_devices`, which matches guests' interfaces: with the prefix bt, it matches bt1, not btx1. */
export function guestDevices(interfacePrefix: string): Item {
  const devices = Array.from({ length: 10 }, (_, digit) => `"${interfacePrefix}${digit}*"`).join(', ')
  return set('guest_devices', `type ifname; flags interval; elements = { ${devices} };`)
}

function planArp(): Item[] {
  return [
    chain('arp_from_guest'),
    rule('arp_from_guest', 'arp htype != 1 drop'),
    rule('arp_from_guest', 'arp ptype != ip drop'),
    rule('arp_from_guest', 'arp hlen != 6 drop'),
    rule('arp_from_guest', 'arp plen != 4 drop'),
    rule('arp_from_guest', 'arp operation != { request, reply } drop'),
    rule('arp_from_guest', 'iifname . arp saddr ether . arp saddr ip != @guests drop'),
    rule('arp_from_guest', 'iifname . ether saddr . arp saddr ip @guests accept'),
  ]
}

function planIpv4(): Item[] {
  return [
    chain('ipv4_from_guest'),
    // Redirects are dropped, because guests are not routers. `planIpv6` drops the redirects of IPv6.
    rule('ipv4_from_guest', 'icmp type redirect drop'),
    rule('ipv4_from_guest', 'udp sport 67 drop'),
    rule('ipv4_from_guest', 'iifname . ether saddr . ip saddr @guests accept'),
  ]
}

/*
 * In neighbour discovery (RFC 4861), guests are only allowed to send solicitations, because the host is the router and
 * has permanent entries for guests in its neighbour table. Guests cannot be DHCPv6 servers or clients. The source of a
 * solicitation must be the guest's own address or `::`. The set `guests6` contains `::` only for this purpose. The only
 * option that a solicitation can contain is the guest's MAC: bytes 24 to 32 are type 1, length 1, MAC.
 */
function planIpv6(): Item[] {
  const chains = ['ipv6_from_guest', 'solicitation'] as const
  const [from, solicitation] = chains
  return [
    ...chains.map(chain),
    rule(from, 'icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-advert, nd-redirect } drop'),
    rule(from, 'udp sport { 546, 547 } drop'),
    rule(from, `icmpv6 type nd-neighbor-solicit jump ${solicitation}`),
    rule(from, 'ip6 saddr :: drop'),
    rule(from, 'iifname . ether saddr . ip6 saddr @guests6 accept'),
    rule(solicitation, 'ip6 hoplimit != 255 drop'),
    rule(solicitation, 'iifname . ether saddr . ip6 saddr != @guests6 drop'),
    rule(solicitation, 'ip6 saddr :: accept'),
    rule(solicitation, 'ip6 length 24 accept'),
    rule(solicitation, 'ip6 length != 32 drop'),
    rule(solicitation, '@th,192,16 0x0101 iifname . @th,208,48 @solicitors accept'),
    rule(solicitation, 'drop'),
  ]
}
