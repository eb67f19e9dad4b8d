import { expect } from 'chai'
import { validateConfig } from '../../shared/config.js'
import { AgentConfigSchema } from '../config.js'
import type { AbuseClaim, CountRow, Evidence, RecordedFlow, Outcome } from './contract.js'
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
  /** Length in seconds of the period, up to the present time, over which the flows are distributed. */
  readonly seconds?: number
  readonly count?: number
  readonly replyBytes?: number
  readonly prefix?: string
}

/** Returns rows of flows to each port of each target, evenly distributed over time. */
function flows(spread: Spread): RecordedFlow[] {
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

/** Returns the counts of the last `looks` evaluations, ten seconds apart. @param perSecond increase per second */
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
  ['15 ports that do not answer', { rows: flows({ ports: 15, outcome: 'unanswered' }) }, [`medium port_scan ${one} 0`]],
  ['15 refused UDP ports', { rows: flows({ ports: 15, protocol: 'udp' }) }, [`medium port_scan ${one} 0`]],
  [
    '15 refused ports of an IPv6 target',
    { rows: flows({ ports: 15, prefix: 'fd00::' }) },
    ['medium port_scan fd00::1 0'],
  ],
  ['15 refused ports over five minutes', { rows: flows({ ports: 15, seconds: 290 }) }, []],
  ['one refused port per second', { rows: flows({ ports: 60, seconds: 60 }) }, [`medium port_scan ${one} 0`]],
  ['100 refused ports', { rows: flows({ ports: 100 }) }, [`high port_scan ${one} 0`]],
  ['1,000 refused ports in 5 min', { rows: flows({ ports: 1000, seconds: 290 }) }, [`critical port_scan ${one} 0`]],
  [
    '1,000 refused ports if the scan ended a minute ago',
    { rows: flows({ ports: 1000, seconds: 290 }).map((row) => ({ ...row, atMs: row.atMs - 70_000 })) },
    [],
  ],
  [
    '15 refused ports if 16 other ports answer',
    { rows: [...flows({ ports: 15 }), ...flows({ ports: 16, port: 100, outcome: 'answered' })] },
    [],
  ],
  ['requests with an unknown outcome to 500 ports', { rows: flows({ ports: 500, outcome: 'opened' }) }, []],
  ['24 targets that refuse connections', { rows: flows({ targets: 24, port: 445 }) }, []],
  ['25 targets that refuse connections', { rows: flows({ targets: 25, port: 445 }) }, ['medium horizontal_scan * 445']],
  [
    '25 targets that do not answer a ping',
    { rows: flows({ targets: 25, port: 0, protocol: 'icmp' }) },
    ['medium horizontal_scan * 0'],
  ],
  [
    '25 IPv6 targets that refuse connections',
    { rows: flows({ targets: 25, prefix: 'fd00::' }) },
    ['medium horizontal_scan * 1'],
  ],
  ['100 targets that refuse connections', { rows: flows({ targets: 100, port: 80 }) }, ['high horizontal_scan * 80']],
  [
    '250 targets that refuse connections in 5 min',
    { rows: flows({ targets: 250, port: 80, seconds: 299 }) },
    ['high horizontal_scan * 80'],
  ],
  [
    '1,000 targets that refuse connections in 5 min',
    { rows: flows({ targets: 1000, port: 80, seconds: 290 }) },
    ['critical horizontal_scan * 80'],
  ],
  [
    'a crawler whose 740 links include 40 dead links',
    {
      rows: [
        ...flows({ targets: 40, port: 443 }),
        ...flows({ targets: 700, port: 443, outcome: 'answered', prefix: '198.19' }),
      ],
    },
    [],
  ],
  [
    '300 torrent peers that do not answer, at different ports',
    {
      rows: Array.from({ length: 300 }, (_, i) => flows({ port: 10_000 + i * 7, prefix: `198.${i % 200}` })[0]!),
    },
    [],
  ],
  ['200 bitcoin peers that do not answer', { rows: flows({ targets: 200, port: 8333 }) }, []],
  [
    '1,000 bitcoin peers that do not answer',
    { rows: flows({ targets: 1000, port: 8333 }) },
    ['medium horizontal_scan * 8333'],
  ],
  ['19 failed logins', { rows: logins({ count: 19 }) }, []],
  ['20 failed logins', { rows: logins({ count: 20 }) }, [`medium brute_force ${one} 22`]],
  ['30 failed logins', { rows: logins({ count: 30 }) }, [`high brute_force ${one} 22`]],
  [
    '30 failed logins in 2 min',
    { rows: logins({ port: 3389, count: 30, seconds: 110 }) },
    [`high brute_force ${one} 3389`],
  ],
  [
    '30 failed logins at an IPv6 target',
    { rows: logins({ prefix: 'fd00::', count: 30 }) },
    ['high brute_force fd00::1 22'],
  ],
  ['30 logins whose outcome is unknown', { rows: logins({ outcome: 'opened', count: 30 }) }, []],
  ['30 logins at a closed port', { rows: logins({ outcome: 'refused', count: 30 }) }, []],
  ['30 successful logins', { rows: logins({ count: 30, replyBytes: 4700 }) }, []],
  ['30 connections that the guest closed after the SSH greeting', { rows: logins({ count: 30, replyBytes: 260 }) }, []],
  [
    '30 logins whose answers have an unknown length',
    { rows: logins({ count: 30 }).map(({ replyBytes: _, ...row }) => row) },
    [],
  ],
  ['30 failed FTP logins', { rows: logins({ port: 21, count: 30, replyBytes: 260 }) }, [`high brute_force ${one} 21`]],
  ['failed logins at 25 targets', { rows: logins({ targets: 25, seconds: 280 }) }, ['high brute_force * 22']],
  ['failed logins at 100 targets', { rows: logins({ targets: 100, seconds: 280 }) }, ['critical brute_force * 22']],
  ['successful logins at 50 targets', { rows: logins({ targets: 50, replyBytes: 4700 }) }, []],
  ['6,000 connections of an application to its database', { rows: logins({ port: 5432, count: 6000 }) }, []],
  ['logins at the databases of 25 targets', { rows: logins({ port: 6379, targets: 25 }) }, ['high brute_force * 6379']],
  ['499 unanswered connections per second', { rows: syn, counts: counts({ opened: 499 }) }, []],
  ['500 unanswered connections per second', { rows: syn, counts: counts({ opened: 500 }) }, [`high ddos ${one} 80`]],
  [
    '2,000 unanswered connections per second',
    { rows: syn, counts: counts({ opened: 2000 }) },
    [`critical ddos ${one} 80`],
  ],
  ['2,000 accepted connections per second', { rows: syn, counts: counts({ opened: 2000, accepted: 2000 }) }, []],
  [
    '2,000 connections per second to 60 targets',
    {
      rows: flows({ outcome: 'opened', targets: 60, port: 80, seconds: 8 }),
      counts: counts({ opened: 2000 }),
    },
    [],
  ],
  [
    '2,000 connections per second to 60 ports',
    { rows: flows({ outcome: 'opened', ports: 60, seconds: 8 }), counts: counts({ opened: 2000 }) },
    [],
  ],
  [
    '30,000 packets per second to one target',
    {
      rows: flows({ outcome: 'opened', protocol: 'udp', port: 53, count: 60, seconds: 8 }),
      counts: counts({ sent: 30_000 }),
    },
    [`high ddos ${one} 53`],
  ],
  [
    '100,000 packets per second to one target',
    {
      rows: flows({ outcome: 'opened', protocol: 'udp', port: 53, count: 60, seconds: 8 }),
      counts: counts({ sent: 100_000 }),
    },
    [`critical ddos ${one} 53`],
  ],
  [
    '80,000 packets per second of an acknowledged upload',
    {
      rows: flows({ outcome: 'answered', port: 443, seconds: 8 }),
      counts: counts({ sent: 80_000, received: 8000 }),
    },
    [],
  ],
  ['100 packets per second with forged addresses', { counts: counts({ forged: 100 }) }, ['high ddos * 0']],
  ['29 mails', { mail: mail({ count: 29 }) }, []],
  ['30 mails', { mail: mail({ count: 30 }) }, [`medium spam ${one} 25`]],
  ['mails to 10 servers', { mail: mail({ targets: 10 }) }, ['medium spam * 25']],
  ['100 mails', { mail: mail({ count: 100 }) }, [`high spam ${one} 25`]],
  [
    '200 mails of which only 9 were sampled',
    { mail: mail({ count: 9 }), counts: counts({ mail: 200 / 60 }) },
    [`high spam ${one} 25`],
  ],
  ['500 mails to 50 servers', { mail: mail({ targets: 50, count: 10 }) }, ['critical spam * 25']],
  [
    '500 mails while port 25 is closed',
    { mail: mail({ targets: 50, count: 10 }), isMailClosed: true },
    ['high spam * 25'],
  ],
  ['mails to 200 servers within an hour', { mail: mail({ targets: 200, seconds: 3500 }) }, ['critical spam * 25']],
  ['100 mails from a mail server', { mail: mail({ count: 100 }), isMailServer: true }, []],
  ['300 mails from a mail server', { mail: mail({ count: 300 }), isMailServer: true }, [`medium spam ${one} 25`]],
  ['requests for work from a mining pool', { claims: claims('stratum') }, ['high mining 203.0.113.0 1080']],
  ['a lookup of the name of a mining pool', { claims: claims('pool') }, ['high mining 203.0.113.0 1080']],
  ['connections to the port of a mining pool', { rows: flows({ outcome: 'answered', port: 3333, count: 50 }) }, []],
  ['a proxy with one client', { claims: claims('proxy') }, ['medium proxy 203.0.113.0 1080']],
  ['a proxy with 20 clients', { claims: claims('proxy', 20) }, ['high proxy * 1080']],
  ['9 Mbit/s of amplified answers', { counts: served(9, 20) }, []],
  ['10 Mbit/s of amplified answers', { counts: served(10, 20) }, ['medium reflection * 11211']],
  ['19 Mbit/s of amplified answers in a single evaluation', { counts: served(19, 20, 1) }, []],
  [
    '10 Mbit/s of amplified answers over a minute',
    {
      counts: served(60, 20, 1).map((row) => ({ ...row, seconds: 60 })),
    },
    ['medium reflection * 11211'],
  ],
  [
    '9 Mbit/s of amplified answers over a minute',
    { counts: served(54, 20, 1).map((row) => ({ ...row, seconds: 60 })) },
    [],
  ],
  ['50 Mbit/s of amplified answers', { counts: served(50, 20) }, ['high reflection * 11211']],
  ['200 Mbit/s of amplified answers', { counts: served(200, 20) }, ['critical reflection * 11211']],
  ['200 Mbit/s of answers that are only three times as long as the requests', { counts: served(200, 3) }, []],
]

describe('detection of abuse', () => {
  const inWords = (finding: string | undefined): string => {
    if (finding === undefined) return 'nothing'
    const [severity, type, target, port] = finding.split(' ')
    const where = `${target === '*' ? 'several targets' : `target ${target}`}, ${port === '0' ? 'no single port' : `port ${port}`}`
    return `${type} of ${severity} severity (${where})`
  }
  for (const [name, parts, findings] of cases)
    it(`reports ${inWords(findings[0])} for ${name}`, () => expect(found(parts)).to.deep.equal(findings))

  it('reports at most the three worst findings of each type', () => {
    const rows = [...flows({ targets: 9, ports: 20 }), ...flows({ ports: 120, port: 1000, prefix: '192.0' })]
    expect(found({ rows })).to.deep.equal([
      'high port_scan 192.0.0.0 0',
      'medium port_scan 198.18.0.0 0',
      'medium port_scan 198.18.0.1 0',
    ])
  })
})

describe('the decision to read the flows of a guest from the connection table', () => {
  const suspicions: [name: string, parts: Partial<Evidence>, is: boolean][] = [
    ['a guest without traffic', {}, false],
    [
      'connections to 40 ports that refuse all connections',
      { rows: flows({ ports: 40, outcome: 'opened' }), counts: counts({ opened: 1 }) },
      true,
    ],
    [
      'connections to 40 ports that accept all connections',
      { rows: flows({ ports: 40, outcome: 'opened' }), counts: counts({ opened: 1, accepted: 1 }) },
      false,
    ],
    ['packets to 40 UDP ports', { rows: flows({ ports: 40, outcome: 'opened', protocol: 'udp' }) }, true],
    ['login attempts at five targets', { rows: flows({ targets: 5, outcome: 'opened', port: 22 }) }, true],
    ['500 connections to one web server', { rows: flows({ outcome: 'opened', port: 443, count: 500 }) }, false],
  ]
  for (const [name, parts, is] of suspicions)
    it(`is ${is} for ${name}`, () => expect(isSuspect(evidence(parts), thresholds)).to.equal(is))
})
