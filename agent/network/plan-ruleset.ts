/** What the tables depend on beside the guests. All of it is validated configuration. */
export interface RulesetPlan {
  readonly table: string
  readonly bridge: string
  readonly interfacePrefix: string
  readonly subnet: string
  readonly gateway: string
}

/**
 * Tracked connections of one guest, each way: none can fill the host's table (262,144 by default).
 * `ct count` walks all it counts for each new one, milliseconds of every packet at this many. So one in
 * `sampling` is counted, and a guest found over its limit opens none for a second.
 */
const connectionsPerGuest = 16_384
const sampling = 16

/*
 * Rules are the same however many guests there are; guests are elements:
 *   bridge guests   device . mac . ipv4                    who may speak from which port
 *   ip ports        protocol . host port : ipv4 . port     mappings
 * Only the bridge, the subnet and guests' devices are matched, so that foreign traffic and foreign tables
 * are not touched; `accept` ends nothing but our own chain.
 */

/** The tables without elements, as commands of one transaction. Anti-spoofing comes first. */
export function planRuleset(plan: RulesetPlan): string[] {
  return [...planBridgeTable(plan), ...planFilterTable(plan), ...planNatTable(plan)]
}

/** Removes the tables, there or not. */
export function planRemoval({ table }: Pick<RulesetPlan, 'table'>): string[] {
  return families.flatMap((family) => [`add table ${family} ${table}`, `delete table ${family} ${table}`])
}

export const families = ['bridge', 'inet', 'ip'] as const

/*
 * Before the bridge learns or forwards anything. `ether type` is read from the frame: `meta protocol` would
 * be that inside a VLAN tag. IPv6, tags and everything else is dropped. Guests never reach one another on
 * layer 2. Frames to the bridge group addresses skip prerouting, hence the second hook. Bridge names cannot
 * be matched on every kernel (NFT_BRIDGE_META), so guests' devices are told by prefix and digit.
 */
function planBridgeTable({ table, interfacePrefix }: RulesetPlan): string[] {
  const devices = Array.from({ length: 10 }, (_, digit) => `"${interfacePrefix}${digit}*"`).join(', ')
  return inTable('bridge', table, [
    set('guests', 'type ifname . ether_addr . ipv4_addr;'),
    set('guest_devices', `type ifname; flags interval; elements = { ${devices} };`),
    hook('prerouting', 'filter', -300),
    hook('input', 'filter', -300),
    hook('forward', 'filter', -300),
    { chain: 'from_guest' },
    { chain: 'arp_from_guest' },
    { chain: 'ipv4_from_guest' },
    rule('prerouting', 'iifname @guest_devices jump from_guest'),
    rule('from_guest', 'ether type vmap { arp : jump arp_from_guest, ip : jump ipv4_from_guest }'),
    rule('from_guest', 'drop'),
    rule('arp_from_guest', 'arp htype != 1 drop'),
    rule('arp_from_guest', 'arp ptype != ip drop'),
    rule('arp_from_guest', 'arp hlen != 6 drop'),
    rule('arp_from_guest', 'arp plen != 4 drop'),
    rule('arp_from_guest', 'arp operation != { request, reply } drop'),
    rule('arp_from_guest', 'iifname . arp saddr ether . arp saddr ip != @guests drop'),
    rule('arp_from_guest', 'iifname . ether saddr . arp saddr ip @guests accept'),
    rule('ipv4_from_guest', 'udp sport 67 drop'),
    rule('ipv4_from_guest', 'iifname . ether saddr . ip saddr @guests accept'),
    rule('input', 'iifname @guest_devices ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop'),
    rule('forward', 'iifname @guest_devices drop'),
    rule('forward', 'oifname @guest_devices drop'),
  ])
}

/*
 * A guest reaches of the host: replies, and the gateway's ping. Anything outward is open. To a guest come
 * replies and mapped ports only.
 */
function planFilterTable({ table, bridge, gateway, subnet }: RulesetPlan): string[] {
  return inTable('inet', table, [
    set('pings', 'type ipv4_addr; size 65535; flags dynamic,timeout; timeout 10s;'),
    ...['outbound', 'inbound'].flatMap((way) => [
      set(way, 'type ipv4_addr; size 65535; flags dynamic;'),
      set(`${way}_full`, 'type ipv4_addr; size 65535; flags dynamic,timeout; timeout 1s;'),
    ]),
    hook('input', 'filter', 0),
    hook('output', 'filter', 0),
    hook('forward', 'filter', 0),
    { chain: 'guest_to_host' },
    { chain: 'from_guest' },
    { chain: 'to_guest' },
    rule('input', `iifname "${bridge}" jump guest_to_host`),
    rule('guest_to_host', 'ct state established,related accept'),
    rule(
      'guest_to_host',
      `ip daddr ${gateway} icmp type echo-request ` +
        'update @pings { ip saddr limit rate 20/second burst 40 packets } accept',
    ),
    rule('guest_to_host', 'drop'),
    // The bridge is entered and left by a hairpin: the kernel would tell the guest a shorter way.
    rule('output', `oifname "${bridge}" icmp type redirect drop`),
    rule('forward', `iifname "${bridge}" jump from_guest`),
    rule('forward', `oifname "${bridge}" jump to_guest`),
    rule('from_guest', 'ct state invalid drop'),
    rule('from_guest', `ip saddr != ${subnet} drop`),
    rule('from_guest', 'meta nfproto ipv6 drop'),
    ...limitConnections({ chain: 'from_guest', match: 'ct state new', way: 'outbound', key: 'saddr' }),
    rule('to_guest', 'ct state established,related accept'),
    rule('to_guest', 'ct state invalid drop'),
    ...limitConnections({
      chain: 'to_guest',
      match: 'ct state new ct status dnat',
      way: 'inbound',
      key: 'daddr',
    }),
    rule('to_guest', 'ct status dnat accept'),
    rule('to_guest', 'drop'),
  ])
}

interface Limit {
  readonly chain: string
  /** Which packets open a connection. */
  readonly match: string
  readonly way: 'outbound' | 'inbound'
  /** Where the guest's address is. */
  readonly key: 'saddr' | 'daddr'
}

function limitConnections({ chain, match, way, key }: Limit): Item[] {
  const count = `ct count over ${connectionsPerGuest / sampling}`
  return [
    rule(chain, `${match} ip ${key} @${way}_full drop`),
    rule(
      chain,
      `${match} numgen random mod ${sampling} 0 ` +
        `add @${way} { ip ${key} ${count} } update @${way}_full { ip ${key} } drop`,
    ),
  ]
}

/*
 * Every local address of the host serves the mappings, for others, for itself and for guests; loopback is
 * left out, as a packet from 127.0.0.0/8 cannot leave for the bridge without route_localnet. Guests see the
 * client's address, except that of another guest: its answer would go past the host.
 */
function planNatTable({ table, bridge, subnet }: RulesetPlan): string[] {
  const mapped = 'fib daddr type local dnat ip to meta l4proto . th dport map @ports'
  return inTable('ip', table, [
    { map: 'ports', body: 'type inet_proto . inet_service : ipv4_addr . inet_service;' },
    hook('prerouting', 'nat', -100),
    hook('output', 'nat', -100),
    hook('postrouting', 'nat', 100),
    rule('prerouting', mapped),
    rule('output', `ip daddr != 127.0.0.0/8 ${mapped}`),
    rule('postrouting', `ip saddr ${subnet} oifname != "${bridge}" masquerade`),
    rule('postrouting', `ip saddr ${subnet} oifname "${bridge}" ct status dnat masquerade`),
  ])
}

type Item =
  | { set: string; body: string }
  | { map: string; body: string }
  | { chain: string; hook?: string }
  | { rule: string; chain: string }

const set = (name: string, body: string): Item => ({ set: name, body })
const rule = (chain: string, text: string): Item => ({ rule: text, chain })
const hook = (name: string, type: 'filter' | 'nat', priority: number): Item => ({
  chain: name,
  hook: `type ${type} hook ${name} priority ${priority}; policy accept;`,
})

function inTable(family: string, table: string, items: readonly Item[]): string[] {
  const at = `${family} ${table}`
  const command = (item: Item): string => {
    if ('rule' in item) return `add rule ${at} ${item.chain} ${item.rule}`
    if ('chain' in item) return `add chain ${at} ${item.chain}${item.hook ? ` { ${item.hook} }` : ''}`
    if ('set' in item) return `add set ${at} ${item.set} { ${item.body} }`
    return `add map ${at} ${item.map} { ${item.body} }`
  }
  return [`add table ${at}`, ...items.map(command)]
}
