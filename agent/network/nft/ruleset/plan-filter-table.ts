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
  /** Private IPv6 network of guests, for NAT66. */
  readonly subnet6: string
  /** True if traffic between guests of this host is counted too. */
  readonly countInternal: boolean
}

/**
 * Maximum number of tracked connections of one guest in each direction, over all its addresses. Without this limit, a
 * guest could fill the host's table of connections (262,144 by default). `ct count` walks all connections that it
 * counts, which takes milliseconds. Therefore it runs for one of `sampling` new connections and counts only these. When
 * a guest exceeds the limit, all its new connections are dropped for a second.
 */
const connectionsPerGuest = 16_384
const sampling = 16

const addressFamilies = [
  { ip: 'ip', type: 'ipv4_addr', suffix: '' },
  { ip: 'ip6', type: 'ipv6_addr', suffix: '6' },
] as const

/*
 * Plans the filter for packets from and to guests. Anti-spoofing comes first, then the guest's firewall, then these
 * rules: To the host itself, guests can only send replies, and pings to their gateway. All their frames must have the
 * MAC of the gateway as destination. Guests can open connections to computers outside the host. They receive replies,
 * and traffic for their mapped ports, public addresses and IPv6 addresses.
 */
export function planFilterTable(plan: FilterTablePlan): string[] {
  return inTable('inet', plan.table, [
    ...planSets(),
    ...planOffBridge(plan.interfacePrefix),
    ...planForged(plan),
    hook('input', 'filter', 0),
    hook('output', 'filter', 0),
    hook('forward', 'filter', 0),
    // The priority 10 makes this chain run after all filters, so that dropped packets are not counted.
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
 * Drops packets that arrive directly from a guest's interface. Such an interface was taken off the bridge, so its
 * packets did not pass anti-spoofing. For bridged frames, IP hooks always see the bridge as the device, even with
 * bridge-nf-call-iptables. Runs before connection tracking.
 */
export function planOffBridge(interfacePrefix: string): Item[] {
  return [
    guestDevices(interfacePrefix),
    hook('prerouting', 'filter', -300),
    rule('prerouting', 'iifname @guest_devices drop'),
  ]
}

/**
 * Drops packets from outside that have a guest's source address, because answers to them would pass that guest's
 * firewall. IPv6 has no reverse path filter, and on many hosts the filter of IPv4 (rp_filter) is off. The host routes
 * guests' IPv6 addresses to the bridge, so packets from these addresses are accepted only from the bridge. Guests'
 * public IPv4 addresses need no rule, because they are addresses of the host itself. The kernel accepts no packets from
 * outside with such a source.
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
 * Applies a guest's firewall to every packet of a flow. A new rule therefore also affects open flows. Packets in both
 * directions are matched by the direction in which the flow was opened. ICMP errors match like the flow that they are
 * about. The kernel does not track neighbour discovery and multicast listeners (ICMPv6 130 to 137 and 143), so they
 * bypass every firewall. This is harmless, because these packets are not routed and pass only between guest and host.
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
 * The kernel counts an ICMP error as related to the flow that it quotes, whoever has sent the error. A guest could use
 * this to shrink the path MTU of other guests' flows, past every firewall. So a guest's error passes only if the guest
 * is an end of the flow. nft cannot compare two fields of a packet, but it can search a set for them. So the rules add
 * the pair (sender, sender) to a set, and then search the set for the pair (end of the flow, sender).
 *
 * Connections that a conntrack helper (FTP, SIP) expects also count as related. Other rules treat them like new ones.
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
    // The kernel sends a redirect if a packet leaves by the interface on which it arrived, as between two guests.
    rule('output', `oifname "${bridge}" icmp type redirect drop`),
    rule('output', `oifname "${bridge}" icmpv6 type nd-redirect drop`),
    // Compares addresses. The device is useless here, because it is still the packet's device from before the mapping.
    rule('output', 'jump firewall_to'),
  ]
}

/**
 * Matches TCP segments that would open a connection without SYN. The kernel permits this by default
 * (nf_conntrack_tcp_loose). Without this rule, a guest's next segment after the removal of a mapping would continue the
 * old connection as if the guest had opened it.
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
 * The priority field of a packet, used as a variable for the number of the receiving guest. nft can count by a field,
 * but not by a value from a map. No queue on the packet's way uses the priority.
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
  /** Condition of an nft rule: the packet opens a connection. */
  readonly match: string
  /** Field of the packet that identifies the guest. Connections are counted separately for each value of the field. */
  readonly guest: string
}

/** Plans a guest's limit of connections. Only dropped packets that the guest sent are counted in the set `limited`. */
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

/** Counts the bytes of IP packets, including headers. Packets that a filter drops do not count. */
function planTraffic({ bridge, countInternal }: FilterTablePlan): Item[] {
  return [
    ...(countInternal ? [] : [rule('traffic', `iifname "${bridge}" oifname "${bridge}" return`)]),
    rule('traffic', `iifname "${bridge}" ether saddr @sent`),
    rule('traffic', `oifname "${bridge}" jump received`),
    ...knowingOwner('received', [rule('received', `${owner} @received`)]),
  ]
}
