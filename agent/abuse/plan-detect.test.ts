import { expect } from 'chai'
import { validateConfig } from '../../shared/config.js'
import { AgentConfigSchema } from '../config.js'
import type { AbuseClaim, CountRow, Evidence, FlowRow, Outcome } from './contract.js'
import { noCounts } from './plan-counts.js'
import { detect, isSuspect } from './plan-detect.js'

const thresholds = validateConfig(AgentConfigSchema, {}, 'test').security
const nowMs = 10_000_000

interface Spread {
  readonly outcome?: Outcome
  readonly targets?: number
  readonly ports?: number
  readonly port?: number
  readonly protocol?: string
  /** Duration in seconds until now. */
  readonly seconds?: number
  readonly count?: number
  readonly replyBytes?: number
  readonly prefix?: string
}

/** Rows of flows to targets and ports, evenly distributed over time. */
function flows(spread: Spread): FlowRow[] {
  const { outcome = 'refused', targets = 1, ports = 1, port = 1, protocol = 'tcp' } = spread
  const { seconds = 50, count = 1, prefix = '198.18' } = spread
  const all = targets * ports
  return Array.from({ length: all }, (_, index) => {
    const target = Math.floor(index / ports)
    const address = prefix.includes(':')
      ? `${prefix}${(target + 1).toString(16)}`
      : `${prefix}.${target >> 8}.${target & 255}`
    const atMs = nowMs - Math.round((seconds * 1000 * (all - index)) / all) + 1
    const bytes = spread.replyBytes === undefined ? {} : { replyBytes: spread.replyBytes }
    return { atMs, outcome, target: address, protocol, port: port + (index % ports), count, ...bytes }
  })
}

/** Counted growth in evaluations of ten seconds until now, given per second. */
function counts(perSecond: Partial<CountRow>, looks = 6): CountRow[] {
  return Array.from({ length: looks }, (_, index) => {
    const grown = Object.fromEntries(Object.entries(perSecond).map(([name, value]) => [name, Number(value) * 10]))
    const { amplified = new Map() } = perSecond
    return { ...noCounts, ...grown, amplified, seconds: 10, atMs: nowMs - (looks - 1 - index) * 10_000 }
  })
}

function served(mbps: number, ratio: number, looks = 2): CountRow[] {
  const servedBytes = mbps * 125_000 * 10
  return counts({ amplified: new Map([[11211, { servedBytes, askedBytes: servedBytes / ratio }]]) }, looks)
}

function claims(kind: AbuseClaim['kind'], clients = 1): AbuseClaim[] {
  return Array.from({ length: clients }, (_, index) => ({
    atMs: nowMs - 5000,
    kind,
    target: `203.0.113.${index}`,
    port: 1080,
    way: 'socks5',
  }))
}

function evidence(parts: Partial<Evidence>): Evidence {
  const rows = [...(parts.rows ?? [])].sort((a, b) => a.atMs - b.atMs)
  const none = { mail: [], claims: [], counts: [], isMailServer: false }
  return { nowMs, ...none, ...parts, rows }
}

const found = (parts: Partial<Evidence>): string[] =>
  detect(evidence(parts), thresholds).map(({ type, severity, target, port }) => `${severity} ${type} ${target} ${port}`)

const one = '198.18.0.0'
const syn = flows({ outcome: 'opened', ports: 1, port: 80, count: 60, seconds: 8 })
const logins = (spread: Spread) => flows({ outcome: 'answered', port: 22, replyBytes: 2500, ...spread })
const mail = (spread: Spread) => flows({ outcome: 'opened', port: 25, ...spread })

const cases: [name: string, parts: Partial<Evidence>, findings: string[]][] = [
  ['14 refused ports', { rows: flows({ ports: 14 }) }, []],
  ['15 refused ports', { rows: flows({ ports: 15 }) }, [`medium port_scan ${one} 0`]],
  ['15 silent ports', { rows: flows({ ports: 15, outcome: 'unanswered' }) }, [`medium port_scan ${one} 0`]],
  ['15 ports by UDP', { rows: flows({ ports: 15, protocol: 'udp' }) }, [`medium port_scan ${one} 0`]],
  ['15 ports in IPv6', { rows: flows({ ports: 15, prefix: 'fd00::' }) }, ['medium port_scan fd00::1 0']],
  ['15 ports over five minutes', { rows: flows({ ports: 15, seconds: 290 }) }, []],
  ['one port a second', { rows: flows({ ports: 60, seconds: 60 }) }, [`medium port_scan ${one} 0`]],
  ['100 ports', { rows: flows({ ports: 100 }) }, [`high port_scan ${one} 0`]],
  ['1,000 ports in five minutes', { rows: flows({ ports: 1000, seconds: 290 }) }, [`critical port_scan ${one} 0`]],
  [
    '1,000 ports that ended',
    { rows: flows({ ports: 1000, seconds: 290 }).map((row) => ({ ...row, atMs: row.atMs - 70_000 })) },
    [],
  ],
  [
    'as many ports that answer',
    { rows: [...flows({ ports: 15 }), ...flows({ ports: 16, port: 100, outcome: 'answered' })] },
    [],
  ],
  ['requests without outcome', { rows: flows({ ports: 500, outcome: 'opened' }) }, []],
  ['24 targets', { rows: flows({ targets: 24, port: 445 }) }, []],
  ['25 targets', { rows: flows({ targets: 25, port: 445 }) }, ['medium horizontal_scan * 445']],
  [
    '25 that answer no ping',
    { rows: flows({ targets: 25, port: 0, protocol: 'icmp' }) },
    ['medium horizontal_scan * 0'],
  ],
  ['25 targets in IPv6', { rows: flows({ targets: 25, prefix: 'fd00::' }) }, ['medium horizontal_scan * 1']],
  ['100 targets', { rows: flows({ targets: 100, port: 80 }) }, ['high horizontal_scan * 80']],
  [
    '250 targets in five minutes',
    { rows: flows({ targets: 250, port: 80, seconds: 299 }) },
    ['high horizontal_scan * 80'],
  ],
  ['1,000 targets', { rows: flows({ targets: 1000, port: 80, seconds: 290 }) }, ['critical horizontal_scan * 80']],
  [
    'dead links of a crawler',
    {
      rows: [
        ...flows({ targets: 40, port: 443 }),
        ...flows({ targets: 700, port: 443, outcome: 'answered', prefix: '198.19' }),
      ],
    },
    [],
  ],
  [
    'dead peers of a torrent',
    {
      rows: Array.from({ length: 300 }, (_, i) => flows({ port: 10_000 + i * 7, prefix: `198.${i % 200}` })[0]!),
    },
    [],
  ],
  ['200 dead nodes of bitcoin', { rows: flows({ targets: 200, port: 8333 }) }, []],
  ['1,000 dead nodes of bitcoin', { rows: flows({ targets: 1000, port: 8333 }) }, ['medium horizontal_scan * 8333']],
  ['19 logins', { rows: logins({ count: 19 }) }, []],
  ['20 logins', { rows: logins({ count: 20 }) }, [`medium brute_force ${one} 22`]],
  ['30 logins', { rows: logins({ count: 30 }) }, [`high brute_force ${one} 22`]],
  ['30 in two minutes', { rows: logins({ port: 3389, count: 30, seconds: 110 }) }, [`high brute_force ${one} 3389`]],
  ['30 in IPv6', { rows: logins({ prefix: 'fd00::', count: 30 }) }, ['high brute_force fd00::1 22']],
  ['30 without outcome', { rows: logins({ outcome: 'opened', count: 30 }) }, []],
  ['30 at a closed port', { rows: logins({ outcome: 'refused', count: 30 }) }, []],
  ['30 successful logins', { rows: logins({ count: 30, replyBytes: 4700 }) }, []],
  ['30 greetings', { rows: logins({ count: 30, replyBytes: 260 }) }, []],
  ['30 that were not counted', { rows: logins({ count: 30 }).map(({ replyBytes: _, ...row }) => row) }, []],
  ['30 short ones by FTP', { rows: logins({ port: 21, count: 30, replyBytes: 260 }) }, [`high brute_force ${one} 21`]],
  ['logins at 25 targets', { rows: logins({ targets: 25, seconds: 280 }) }, ['high brute_force * 22']],
  ['logins at 100 targets', { rows: logins({ targets: 100, seconds: 280 }) }, ['critical brute_force * 22']],
  ['commands on 50 machines', { rows: logins({ targets: 50, replyBytes: 4700 }) }, []],
  ['a pool of an application', { rows: logins({ port: 5432, count: 6000 }) }, []],
  ['databases of 25', { rows: logins({ port: 6379, targets: 25 }) }, ['high brute_force * 6379']],
  ['499 openings', { rows: syn, counts: counts({ opened: 499 }) }, []],
  ['500 openings', { rows: syn, counts: counts({ opened: 500 }) }, [`high ddos ${one} 80`]],
  ['2,000 openings', { rows: syn, counts: counts({ opened: 2000 }) }, [`critical ddos ${one} 80`]],
  ['2,000 answered ones', { rows: syn, counts: counts({ opened: 2000, accepted: 2000 }) }, []],
  [
    '2,000 at many targets',
    {
      rows: flows({ outcome: 'opened', targets: 60, port: 80, seconds: 8 }),
      counts: counts({ opened: 2000 }),
    },
    [],
  ],
  [
    '2,000 at many ports',
    { rows: flows({ outcome: 'opened', ports: 60, seconds: 8 }), counts: counts({ opened: 2000 }) },
    [],
  ],
  [
    '30,000 packets',
    {
      rows: flows({ outcome: 'opened', protocol: 'udp', port: 53, count: 60, seconds: 8 }),
      counts: counts({ sent: 30_000 }),
    },
    [`high ddos ${one} 53`],
  ],
  [
    '100,000 packets',
    {
      rows: flows({ outcome: 'opened', protocol: 'udp', port: 53, count: 60, seconds: 8 }),
      counts: counts({ sent: 100_000 }),
    },
    [`critical ddos ${one} 53`],
  ],
  [
    'an upload',
    {
      rows: flows({ outcome: 'answered', port: 443, seconds: 8 }),
      counts: counts({ sent: 80_000, received: 8000 }),
    },
    [],
  ],
  ['forged addresses', { counts: counts({ forged: 100 }) }, ['high ddos * 0']],
  ['29 mails', { mail: mail({ count: 29 }) }, []],
  ['30 mails', { mail: mail({ count: 30 }) }, [`medium spam ${one} 25`]],
  ['10 servers', { mail: mail({ targets: 10 }) }, ['medium spam * 25']],
  ['100 mails', { mail: mail({ count: 100 }) }, [`high spam ${one} 25`]],
  [
    '200 mails that were counted',
    { mail: mail({ count: 9 }), counts: counts({ mail: 200 / 60 }) },
    [`high spam ${one} 25`],
  ],
  ['500 mails', { mail: mail({ targets: 50, count: 10 }) }, ['critical spam * 25']],
  [
    '500 mails that reach nobody, as port 25 is closed',
    { mail: mail({ targets: 50, count: 10 }), isMailClosed: true },
    ['high spam * 25'],
  ],
  ['200 servers in an hour', { mail: mail({ targets: 200, seconds: 3500 }) }, ['critical spam * 25']],
  ['100 mails of a mail server', { mail: mail({ count: 100 }), isMailServer: true }, []],
  ['300 mails of a mail server', { mail: mail({ count: 300 }), isMailServer: true }, [`medium spam ${one} 25`]],
  ['work for a pool', { claims: claims('stratum') }, ['high mining 203.0.113.0 1080']],
  ['a pool by name', { claims: claims('pool') }, ['high mining 203.0.113.0 1080']],
  ['the port of a pool', { rows: flows({ outcome: 'answered', port: 3333, count: 50 }) }, []],
  ['a proxy', { claims: claims('proxy') }, ['medium proxy 203.0.113.0 1080']],
  ['a proxy of 20', { claims: claims('proxy', 20) }, ['high proxy * 1080']],
  ['9 Mbit/s of answers', { counts: served(9, 20) }, []],
  ['10 Mbit/s of answers', { counts: served(10, 20) }, ['medium reflection * 11211']],
  ['19 Mbit/s of answers in a single reading', { counts: served(19, 20, 1) }, []],
  [
    '10 Mbit/s of answers where looks are rare',
    {
      counts: served(60, 20, 1).map((row) => ({ ...row, seconds: 60 })),
    },
    ['medium reflection * 11211'],
  ],
  ['9 Mbit/s where looks are rare', { counts: served(54, 20, 1).map((row) => ({ ...row, seconds: 60 })) }, []],
  ['50 Mbit/s of answers', { counts: served(50, 20) }, ['high reflection * 11211']],
  ['200 Mbit/s of answers', { counts: served(200, 20) }, ['critical reflection * 11211']],
  ['answers as long as questions', { counts: served(200, 3) }, []],
]

describe('detection of abuse', () => {
  for (const [name, parts, findings] of cases) it(name, () => expect(found(parts)).to.deep.equal(findings))

  it('reports at most three alerts of one type per check, the worst', () => {
    const rows = [...flows({ targets: 9, ports: 20 }), ...flows({ ports: 120, port: 1000, prefix: '192.0' })]
    expect(found({ rows })).to.deep.equal([
      'high port_scan 192.0.0.0 0',
      'medium port_scan 198.18.0.0 0',
      'medium port_scan 198.18.0.1 0',
    ])
  })
})

describe('suspicion', () => {
  const suspicions: [name: string, parts: Partial<Evidence>, is: boolean][] = [
    ['nothing', {}, false],
    [
      'ports asked, none answers',
      { rows: flows({ ports: 40, outcome: 'opened' }), counts: counts({ opened: 1 }) },
      true,
    ],
    [
      'ports asked, all answer',
      { rows: flows({ ports: 40, outcome: 'opened' }), counts: counts({ opened: 1, accepted: 1 }) },
      false,
    ],
    ['ports asked by UDP', { rows: flows({ ports: 40, outcome: 'opened', protocol: 'udp' }) }, true],
    ['logins at a few targets', { rows: flows({ targets: 5, outcome: 'opened', port: 22 }) }, true],
    ['one web server', { rows: flows({ outcome: 'opened', port: 443, count: 500 }) }, false],
  ]
  for (const [name, parts, is] of suspicions)
    it(name, () => expect(isSuspect(evidence(parts), thresholds)).to.equal(is))
})
