import { chain, hook, inTable, packetSet, rule, set, type Item } from './plan-items.js'

export interface WatchTablePlan {
  /** Name of the tables with guests' rules, from which the name of the watch table is derived. */
  readonly table: string
  readonly bridge: string
  /** Ports of login services, where attackers guess passwords. Connections to them are sampled separately. */
  readonly loginPorts: readonly number[]
  /** Ports of UDP services whose answers are larger than the requests. */
  readonly amplifiers: readonly number[]
  /** True if the first bytes of connections are inspected. */
  readonly payload: boolean
}

/** Sets of the watch table that have a counter for each guest's address. For IPv6, their names end in 6. */
export const watchCounters = ['opened', 'accepted', 'refused', 'unreachable', 'mail'] as const
export type WatchCounter = (typeof watchCounters)[number]

/** Sets of the watch table that have a counter for each guest's address and port. */
export const amplifierCounters = ['asked', 'served'] as const

export function watchTable(table: string): string {
  return `${table}_watch`
}

/**
 * Number of the nflog group that receives samples. A group can have only one listener in a network namespace, so agents
 * with different table names use different numbers.
 */
export function watchLogGroup(table: string): number {
  const hash = [...table].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 49_999, 7)
  return 16_000 + hash
}

/** Prefixes of log entries about sampled packets. A prefix shows why the packet was sampled. */
export const samples = { opening: 'o', refusal: 'r', error: 'e', payload: 'p' } as const

const families = [
  { ip: 'ip', type: 'ipv4_addr', suffix: '' },
  { ip: 'ip6', type: 'ipv6_addr', suffix: '6' },
] as const

/*
 * Plans the table that counts and samples guests' traffic. The table accepts every packet. It runs before any filter,
 * so that it also counts connections that the connection limit or a firewall drops. A guest's first packet adds the
 * guest's elements, which expire after an hour, so that the agent need not add them. A packet's source is always the
 * guest's own address, because anti-spoofing runs before this table.
 */
export function planWatchTable(plan: WatchTablePlan): string[] {
  return inTable('inet', watchTable(plan.table), [
    ...planSets(plan),
    hook('input', 'filter', -10),
    hook('forward', 'filter', -10),
    ...['from_guest', 'to_guest', 'opening', ...sampled.map((sample) => sample.chain)].map(chain),
    ...planSamples(plan),
    rule('input', `iifname "${plan.bridge}" jump from_guest`),
    rule('forward', `iifname "${plan.bridge}" jump from_guest`),
    rule('forward', `oifname "${plan.bridge}" jump to_guest`),
    ...planFromGuest(plan),
    ...planToGuest(),
  ])
}

export function planWatchRemoval(table: string): string[] {
  return [`add table inet ${watchTable(table)}`, `delete table inet ${watchTable(table)}`]
}

const counted = { timeout: '1h', counter: true } as const

function planSets({ amplifiers, loginPorts }: WatchTablePlan): Item[] {
  return [
    ...families.flatMap(({ type, suffix }) => [
      ...watchCounters.map((name) => packetSet(`${name}${suffix}`, [type], counted)),
      ...amplifierCounters.map((name) => packetSet(`${name}${suffix}`, [type, 'inet_service'], counted)),
      ...sampled.map(({ bucket }) => packetSet(`${bucket}_sample${suffix}`, [type], { timeout: '10s' })),
    ]),
    set('amplifiers', portSet(amplifiers)),
    set('login_ports', portSet(loginPorts)),
  ]
}

function portSet(ports: readonly number[]): string {
  const elements = ports.length > 0 ? ` elements = { ${ports.join(', ')} };` : ''
  return `type inet_service;${elements}`
}

const isSyn = 'tcp flags syn / syn,ack'

function planFromGuest({ payload }: WatchTablePlan): Item[] {
  return [
    rule('from_guest', 'ct state new meta l4proto { tcp, udp, icmp, ipv6-icmp } jump opening'),
    ...families.flatMap(({ ip, suffix }) => [
      rule('opening', `${isSyn} update @opened${suffix} { ${ip} saddr }`),
      rule('opening', `${isSyn} tcp dport 25 update @mail${suffix} { ${ip} saddr }`),
      rule(
        'from_guest',
        `udp sport @amplifiers ct direction reply update @served${suffix} { ${ip} saddr . udp sport }`,
      ),
    ]),
    rule('opening', `${isSyn} tcp dport @login_ports goto sample_login`),
    rule('opening', `${isSyn} tcp dport 25 goto sample_mail`),
    rule('opening', 'goto sample'),
    ...(payload ? planPayload() : []),
  ]
}

/*
 * Samples packets at the beginning of a connection by their payload. From a guest that opened the connection: a brace
 * (JSON, as in requests to mining pools) or a TLS handshake. From a guest that answers an outside client: the positive
 * answer of a proxy, by SOCKS 5 without a password, by SOCKS 4, or by `HTTP/1.x 200 C(onnection established)`.
 */
function planPayload(): Item[] {
  const asks = 'meta l4proto tcp ct direction original ct original packets <= 6'
  const answers = 'meta l4proto tcp ct direction reply ct reply packets <= 6'
  const matches = [
    `${asks} @ih,0,8 0x7b`,
    `${asks} @ih,0,16 0x1603`,
    `${answers} @ih,0,16 0x0500`,
    `${answers} @ih,0,16 0x005a`,
    `${answers} @ih,0,32 0x48545450 @ih,72,40 0x3230302043`,
  ]
  return matches.map((match) => rule('from_guest', `${match} jump payload`))
}

function planToGuest(): Item[] {
  const isRefusal = 'ct direction reply tcp flags & rst == rst ct status & assured == 0'
  return families.flatMap(({ ip, suffix }) => [
    rule('to_guest', `ct direction reply tcp flags syn,ack / syn,ack update @accepted${suffix} { ${ip} daddr }`),
    rule('to_guest', `${isRefusal} update @refused${suffix} { ${ip} daddr } goto refusal`),
    rule(
      'to_guest',
      `ct state related ${ip === 'ip' ? 'icmp' : 'icmpv6'} type destination-unreachable ` +
        `update @unreachable${suffix} { ${ip} daddr } goto error`,
    ),
    rule('to_guest', `udp dport @amplifiers ct direction original update @asked${suffix} { ${ip} daddr . udp dport }`),
  ])
}

/**
 * Chains that sample packets. For each chain and address family, one guest can cause at most `perSecond` samples per
 * second, and all guests together at most `all`. The limits `all` of all chains add up to 3,000 samples per second.
 */
const sampled = [
  { chain: 'sample_login', bucket: 'login', guest: 'saddr', prefix: samples.opening, all: 150 },
  { chain: 'sample_mail', bucket: 'mail', guest: 'saddr', prefix: samples.opening, all: 100 },
  { chain: 'sample', bucket: 'opening', guest: 'saddr', prefix: samples.opening, all: 600 },
  { chain: 'refusal', bucket: 'refusal', guest: 'daddr', prefix: samples.refusal, all: 400, burst: 300 },
  { chain: 'error', bucket: 'error', guest: 'daddr', prefix: samples.error, all: 100 },
  { chain: 'payload', bucket: 'payload', guest: 'saddr', prefix: samples.payload, all: 150, bytes: 640 },
] as const

/** Maximum samples of each kind per guest and second. Refusals have a larger burst, as a port scan causes many. */
const perSecond = 10
const usualBurst = 60

/** Bytes to log of each sampled packet: enough for its headers, and for the quoted headers of an ICMP error. */
const headerBytes = 128

/** Plans the rules that log samples. The kernel delivers samples in batches of 100, and at least once a second. */
function planSamples({ table, payload }: WatchTablePlan): Item[] {
  return sampled
    .filter(({ bucket }) => payload || bucket !== 'payload')
    .flatMap((sample) => {
      const bytes = 'bytes' in sample ? sample.bytes : headerBytes
      const burst = 'burst' in sample ? sample.burst : usualBurst
      const one = `limit rate ${perSecond}/second burst ${burst} packets`
      const all = `limit rate ${sample.all}/second burst ${2 * sample.all} packets`
      const log = `log prefix "${sample.prefix}" group ${watchLogGroup(table)} snaplen ${bytes} queue-threshold 100`
      return families.map(({ ip, suffix }) =>
        rule(sample.chain, `update @${sample.bucket}_sample${suffix} { ${ip} ${sample.guest} ${one} } ${all} ${log}`),
      )
    })
}
