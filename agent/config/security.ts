import { Type } from 'typebox'
import { keptAlerts } from '../../shared/abuse.js'
import { section } from './fields.js'

/** Maximum grace period in seconds between a critical alert and the stop of its guest. */
export const longestGraceSeconds = 3600

const threshold = (value: number) => Type.Integer({ minimum: 1, maximum: 10_000_000, default: value })
const ports = (...list: number[]) =>
  Type.Array(Type.Integer({ minimum: 1, maximum: 65535 }), {
    default: list,
    maxItems: 256,
    uniqueItems: true,
  })

/** Thresholds from which a guest's behaviour is reported, by severity. docs/abuse.md describes the counted figures. */
const thresholds = {
  port_scan: Type.Object({ medium: threshold(15), high: threshold(100), critical: threshold(1000) }, section),
  horizontal_scan: Type.Object(
    {
      medium: threshold(25),
      high: threshold(100),
      high_slow: threshold(250),
      critical: threshold(1000),
      peer_ports: ports(4662, 6881, 6889, 8333, 8444, 9333, 18080, 26656, 30303, 51413),
    },
    section,
  ),
  brute_force: Type.Object(
    {
      medium: threshold(20),
      high: threshold(30),
      high_targets: threshold(25),
      critical_targets: threshold(100),
      ports: ports(21, 22, 23, 445, 3389, 5900, 5985),
      database_ports: ports(1433, 1521, 3306, 5432, 6379, 9200, 27017),
      reply_bytes: threshold(4000),
    },
    section,
  ),
  ddos: Type.Object(
    {
      high_openings: threshold(500),
      critical_openings: threshold(2000),
      high_packets: threshold(30_000),
      critical_packets: threshold(100_000),
      forged: threshold(100),
    },
    section,
  ),
  spam: Type.Object(
    {
      medium: threshold(30),
      high: threshold(100),
      critical: threshold(500),
      medium_targets: threshold(10),
      high_targets: threshold(50),
      critical_targets: threshold(200),
    },
    section,
  ),
  mining: Type.Object(
    {
      pools: Type.Array(Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{2,252}$' }), {
        default: [
          '2miners.com',
          'antpool.com',
          'braiins.com',
          'c3pool.com',
          'ethermine.org',
          'f2pool.com',
          'flypool.org',
          'gntl.uk',
          'hashvault.pro',
          'herominers.com',
          'hiveon.net',
          'kryptex.network',
          'luckpool.net',
          'minexmr.com',
          'miningocean.org',
          'moneroocean.stream',
          'nanopool.org',
          'nicehash.com',
          'p2pool.io',
          'poolin.com',
          'slushpool.com',
          'sparkpool.com',
          'supportxmr.com',
          'unmineable.com',
          'viabtc.com',
          'woolypooly.com',
          'xmrpool.eu',
          'zpool.ca',
        ],
        maxItems: 256,
      }),
    },
    section,
  ),
  proxy: Type.Object({ high_clients: threshold(20) }, section),
  reflection: Type.Object(
    {
      medium_mbps: threshold(10),
      high_mbps: threshold(50),
      critical_mbps: threshold(200),
      ratio: threshold(5),
      ports: ports(
        17,
        19,
        53,
        69,
        111,
        123,
        137,
        161,
        177,
        389,
        427,
        520,
        623,
        1434,
        1900,
        3283,
        3389,
        3702,
        5093,
        5351,
        5353,
        5683,
        10001,
        11211,
        37810,
      ),
    },
    section,
  ),
}

export const securitySchema = Type.Object(
  {
    /** True if guests are watched for abuse. */
    enabled: Type.Boolean({ default: true }),
    /** Seconds between two evaluations of all guests. */
    interval_seconds: Type.Integer({ minimum: 1, maximum: 60, default: 10 }),
    /** True if the first bytes of connections are inspected for mining and proxies. These bytes are not stored. */
    payload: Type.Boolean({ default: true }),
    /** True if port 25 of other computers is closed, except for guests whose own settings open it. */
    close_smtp: Type.Boolean({ default: true }),
    /** Seconds between a critical alert and the stop of its guest. */
    grace_seconds: Type.Integer({ minimum: 1, maximum: longestGraceSeconds, default: 60 }),
    /** Number of days for which alerts are stored (`keep_days`), and maximum number of stored alerts (`keep`). */
    keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 90 }),
    keep: Type.Integer({ minimum: 100, maximum: keptAlerts, default: keptAlerts }),
    ...thresholds,
  },
  section,
)
