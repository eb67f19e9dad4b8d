import { gateway6 } from '../../addresses/plan-host.js'
import { guestDevices } from './plan-bridge-table.js'
import { planClosed, type ClosedPlan } from './plan-closed.js'
import { chain, hook, inTable, map, packetSet, rule, set, setMark, type Item } from './plan-items.js'

export interface FilterTablePlan extends ClosedPlan {
  readonly table: string
  readonly bridge: string
  readonly interfacePrefix: string
  readonly subnet: string
  readonly gateway: string
  /** Guests' private IPv6 network, for NAT66. */
  readonly subnet6: string
  /** True if traffic between guests is counted too. */
  readonly countInternal: boolean
}

/**
 * Maximum number of tracked connections of one guest in each direction, over all its addresses, so that no guest can
 * fill the host's table (262,144 by default). `ct count` walks all connections that it counts, which takes milliseconds
 * at this number. So only one new connection in `sampling` is counted, and a guest over its limit can open none for a
 * second.
 */
const connectionsPerGuest = 16_384
const sampling = 16

const addressFamilies = [
  { ip: 'ip', type: 'ipv4_addr', suffix: '' },
  { ip: 'ip6', type: 'ipv6_addr', suffix: '6' },
] as const

/*
 * From guests, the host accepts only replies, pings to the gateway and frames to its MAC. Guests may open connections
 * outwards. They receive replies and traffic for mapped ports, their public addresses and their own IPv6. A guest's
 * firewall comes before all of this, and anti-spoofing before the firewall.
 */
export function planFilterTable(plan: FilterTablePlan): string[] {
  return inTable('inet', plan.table, [
    ...planSets(),
    ...planOffBridge(plan.interfacePrefix),
    ...planForged(plan),
    hook('input', 'filter', 0),
    hook('output', 'filter', 0),
    hook('forward', 'filter', 0),
    // Runs after every filter, so that dropped packets are not counted.
    hook('forward', 'filter', 10, 'traffic'),
    ...['guest_to_host', 'from_guest', 'to_guest', 'opened', 'firewall_from', 'firewall_to'].map(chain),
    ...['received', 'related', 'errors'].map(chain),
    ...planErrors(),
    ...planFirewallDispatch(),
    ...planHost(plan),
    rule('forward', `iifname "${plan.bridge}" ${setMark('filtered')}`),
    rule('forward', `oifname "${plan.bridge}" ${setMark('filtered')}`),
    rule('forward', `iifname "${plan.bridge}" jump from_guest`),
    rule('forward', `oifname "${plan.bridge}" jump to_guest`),
    ...planFromGuest(plan),
    ...planToGuest(plan),
    ...planTraffic(plan),
  ])
}

/**
 * Drops packets that arrive at a guest's own interface instead of the bridge: somebody took it off the bridge, and
 * therefore past anti-spoofing. Runs before connection tracking. For bridged frames, IP hooks see the bridge as the
 * device, whatever bridge-nf-call-iptables is.
 */
export function planOffBridge(interfacePrefix: string): Item[] {
  return [
    guestDevices(interfacePrefix),
    hook('prerouting', 'filter', -300),
    rule('prerouting', 'iifname @guest_devices drop'),
  ]
}

/**
 * Drops packets from outside with a guest's source address, whose answers would open that guest's firewall. IPv6 has no
 * reverse path filter of its own, and IPv4's (rp_filter) is off on many hosts. A guest's IPv6 address is routed to the
 * bridge, so its packets can only come from there. Its public IPv4 addresses are the host's own, which the kernel never
 * accepts as a source.
 */
function planForged({ bridge, subnet, subnet6 }: FilterTablePlan): Item[] {
  const outside = `iifname != { "${bridge}", "lo" }`
  return [
    rule('prerouting', `${outside} ip saddr ${subnet} drop`),
    rule('prerouting', `${outside} ip6 saddr ${subnet6} drop`),
    rule('prerouting', `${outside} meta nfproto ipv6 fib saddr oifname "${bridge}" drop`),
  ]
}

function planSets(): Item[] {
  return [
    ...addressFamilies.flatMap(({ type, suffix }) => [
      ...['in', 'out'].map((way) => map(`firewall_${way}${suffix}`, `type ${type} : verdict;`)),
      map(`owners${suffix}`, `type ${type} : classid;`),
      packetSet(`pings${suffix}`, ['ether_addr'], { timeout: '10s' }),
      packetSet(`senders${suffix}`, [type, type], { timeout: '10s' }),
    ]),
    set('received', 'type classid; counter;'),
    set('sent', 'type ether_addr; counter;'),
    set('mailers', 'type ether_addr;'),
    packetSet('limited', ['ether_addr'], { timeout: '1h', counter: true }),
    ...planConnectionSets('outbound', 'ether_addr'),
    ...planConnectionSets('inbound', 'classid'),
  ]
}

function planConnectionSets(name: Connections, type: 'ether_addr' | 'classid'): Item[] {
  return [packetSet(name, [type]), packetSet(`${name}_full`, [type], { timeout: '1s' })]
}

/*
 * Applies a guest's own rules to every packet, not only to a flow's first, so that a new rule holds for open flows too.
 * The rules of the side that opened the flow decide for both directions. ICMP errors about a flow carry its tuple and
 * match with it. The kernel does not track neighbour discovery and multicast listeners (ICMPv6 130 to 137, 143), so no
 * guest's rules would hold for them, and they would bypass a closed firewall. They are not routed, so they pass only
 * between a guest and the host.
 */
function planFirewallDispatch(): Item[] {
  return addressFamilies.flatMap(({ ip, suffix }) => [
    rule('firewall_from', `ct direction original ${ip} saddr vmap @firewall_out${suffix}`),
    rule('firewall_from', `ct direction reply ${ip} saddr vmap @firewall_in${suffix}`),
    rule('firewall_to', `ct direction original ${ip} daddr vmap @firewall_in${suffix}`),
    rule('firewall_to', `ct direction reply ${ip} daddr vmap @firewall_out${suffix}`),
  ])
}

/*
 * The kernel treats an ICMP error as related to the flow that it quotes, whoever sent it. A guest could therefore
 * shrink the path MTU of others' flows, past every firewall. So a guest's error counts only if that guest is the end of
 * the flow that the error comes from. nft cannot compare two fields of a packet, only find them in a set. So the sender
 * is put into a set, paired with itself, and the set is searched for the pair of flow's end and sender.
 *
 * Connections that a conntrack helper (FTP, SIP) expects are related too. They are treated like new ones.
 */
function planErrors(): Item[] {
  return [
    rule('related', `${isError} jump errors`),
    ...addressFamilies.flatMap(({ ip, suffix }) => [
      rule('errors', `update @senders${suffix} { ${ip} saddr . ${ip} saddr }`),
      ...['original', 'reply'].map((way) =>
        rule('errors', `ct direction ${way} ct ${way} ${ip} saddr . ${ip} saddr @senders${suffix} return`),
      ),
    ]),
    rule('errors', 'drop'),
  ]
}

const isError = 'meta l4proto { icmp, ipv6-icmp }'
const relatedError = `ct state related ${isError}`

function planHost({ bridge, gateway }: FilterTablePlan): Item[] {
  const some = 'limit rate 20/second burst 40 packets'
  return [
    rule('input', `iifname "${bridge}" ${setMark('filtered')}`),
    rule('input', `iifname "${bridge}" jump guest_to_host`),
    rule(
      'guest_to_host',
      `icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 update @pings6 { ether saddr ${some} } accept`,
    ),
    rule('guest_to_host', 'jump firewall_from'),
    rule('guest_to_host', 'ct state established accept'),
    rule('guest_to_host', 'ct state related jump related'),
    rule('guest_to_host', `${relatedError} accept`),
    rule('guest_to_host', `ip daddr ${gateway} icmp type echo-request update @pings { ether saddr ${some} } accept`),
    rule(
      'guest_to_host',
      `ip6 daddr ${gateway6} icmpv6 type echo-request update @pings6 { ether saddr ${some} } accept`,
    ),
    rule('guest_to_host', 'drop'),
    // A hairpin enters and leaves by the bridge, so the kernel would redirect the guest to a shorter path.
    rule('output', `oifname "${bridge}" icmp type redirect drop`),
    rule('output', `oifname "${bridge}" icmpv6 type nd-redirect drop`),
    // Matches only by address: after a mapping, this hook still shows the device from before it.
    rule('output', 'jump firewall_to'),
  ]
}

/**
 * By default the kernel accepts any TCP segment as the first of a connection (nf_conntrack_tcp_loose). A connection
 * whose mapping was removed would then return with the guest's next segment, as if the guest had opened it.
 */
const opensMidway = 'ct state new tcp flags != syn / fin,syn,rst,ack drop'

function planFromGuest({ subnet, closed, resolvers }: FilterTablePlan): Item[] {
  return [
    rule('from_guest', 'ct state vmap { invalid : drop, untracked : drop, related : jump related }'),
    rule('from_guest', opensMidway),
    rule('from_guest', `ip saddr != ${subnet} drop`),
    ...planClosed({ closed, resolvers }),
    rule('from_guest', 'tcp dport 25 ct direction original ether saddr != @mailers drop'),
    rule('from_guest', 'jump firewall_from'),
    ...boundConnections('from_guest', 'outbound', { match: 'ct state new,related ', guest: 'ether saddr' }),
  ]
}

function planToGuest({ subnet6 }: FilterTablePlan): Item[] {
  return [
    rule('to_guest', 'ct state invalid,untracked drop'),
    rule('to_guest', opensMidway),
    rule('to_guest', 'jump firewall_to'),
    rule('to_guest', 'ct state established accept'),
    rule('to_guest', `${relatedError} accept`),
    rule('to_guest', 'ct status dnat jump opened'),
    rule('to_guest', 'ct status dnat accept'),
    rule('to_guest', `ip6 daddr ${subnet6} drop`),
    rule('to_guest', 'meta nfproto ipv6 jump opened'),
    rule('to_guest', 'meta nfproto ipv6 accept'),
    rule('to_guest', 'drop'),
    ...knowingOwner('opened', boundConnections('opened', 'inbound', { match: '', guest: owner })),
  ]
}

/**
 * nft can match and count by fields of the packet or its metadata, not by the value of a map. So the owner of an
 * address is stored in the packet's priority for a few rules. No queue on the way to a guest uses the priority.
 */
const owner = 'meta priority'

function knowingOwner(chainName: string, rules: readonly Item[]): Item[] {
  return [
    ...addressFamilies.map(({ ip, suffix }) => rule(chainName, `${owner} set ${ip} daddr map @owners${suffix}`)),
    ...rules,
    rule(chainName, `${owner} set none`),
  ]
}

type Connections = 'outbound' | 'inbound'

interface Bound {
  /** Matches packets that open a connection. */
  readonly match: string
  /** The field that is the same in all packets that open a connection of one guest. */
  readonly guest: string
}

/** Counts packets that a guest loses because of its own limit, but not packets that others lose because of it. */
function boundConnections(chainName: string, name: Connections, { match, guest }: Bound): Item[] {
  const dropped = name === 'outbound' ? `update @limited { ${guest} } ` : ''
  const count = `ct count over ${connectionsPerGuest / sampling}`
  return [
    rule(chainName, `${match}${guest} @${name}_full ${dropped}drop`),
    rule(
      chainName,
      `${match}numgen random mod ${sampling} 0 ` +
        `add @${name} { ${guest} ${count} } update @${name}_full { ${guest} } ${dropped}drop`,
    ),
  ]
}

/** Counts bytes of IP packets that pass all filters, headers included. */
function planTraffic({ bridge, countInternal }: FilterTablePlan): Item[] {
  return [
    ...(countInternal ? [] : [rule('traffic', `iifname "${bridge}" oifname "${bridge}" return`)]),
    rule('traffic', `iifname "${bridge}" ether saddr @sent`),
    rule('traffic', `oifname "${bridge}" jump received`),
    ...knowingOwner('received', [rule('received', `${owner} @received`)]),
  ]
}
