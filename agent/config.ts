import { Type, type Static } from 'typebox'
import { keptAlerts } from '../shared/abuse.js'

const object = { additionalProperties: false, default: {} }
const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
const threshold = (value: number) => Type.Integer({ minimum: 1, maximum: 10_000_000, default: value })
const ports = (...list: number[]) =>
  Type.Array(Type.Integer({ minimum: 1, maximum: 65535 }), {
    default: list,
    maxItems: 256,
    uniqueItems: true,
  })

/** Levels from which a guest's behaviour is reported, and their severity; docs/abuse.md describes what is counted. */
const thresholdSchemas = {
  port_scan: Type.Object({ medium: threshold(15), high: threshold(100), critical: threshold(1000) }, object),
  horizontal_scan: Type.Object(
    {
      medium: threshold(25),
      high: threshold(100),
      high_slow: threshold(250),
      critical: threshold(1000),
      peer_ports: ports(4662, 6881, 6889, 8333, 8444, 9333, 18080, 26656, 30303, 51413),
    },
    object,
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
    object,
  ),
  ddos: Type.Object(
    {
      high_openings: threshold(500),
      critical_openings: threshold(2000),
      high_packets: threshold(30_000),
      critical_packets: threshold(100_000),
      forged: threshold(100),
    },
    object,
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
    object,
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
    object,
  ),
  proxy: Type.Object({ high_clients: threshold(20) }, object),
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
    object,
  ),
}

const ipv4Cidr = '^\\d{1,3}(\\.\\d{1,3}){3}/\\d{1,2}$'

/** Schema of agent.yaml. Every key has a default; `systemd/agent.example.yaml` documents each. */
export const AgentConfigSchema = Type.Object(
  {
    /** Journal, keys, guest configurations. */
    state_dir: absolutePath('/var/lib/berth/agent'),
    /** Sockets and marks, which may be lost at a reboot. */
    run_dir: absolutePath('/run/berth/agent'),
    /** host:port of the gRPC server for the gateway. */
    listen: Type.String({ default: '127.0.0.1:7443', pattern: '^.+:\\d{1,5}$' }),
    log_level: Type.Union(
      (['trace', 'debug', 'info', 'warn', 'error'] as const).map((level) => Type.Literal(level)),
      { default: 'info' },
    ),
    /** IANA name of the time zone; empty: the host's time zone. */
    time_zone: Type.String({ default: '' }),
    network: Type.Object(
      {
        bridge: Type.String({ default: 'berth0', pattern: '^[a-z][a-z0-9-]{0,14}$' }),
        /** Name of the nft table in each family. */
        table: Type.String({ default: 'berth', pattern: '^[a-z][a-z0-9_]{0,30}$' }),
        /** Prefix of host-side guest interfaces; the guest's id follows. */
        interface_prefix: Type.String({ default: 'bt', pattern: '^[a-z]{1,4}$' }),
        /** Guests' private network; its first host address is the gateway's. */
        subnet: Type.String({ default: '10.64.0.0/16', pattern: ipv4Cidr }),
        /** Guests' private IPv6 network for a host that has an address but no prefix for them (NAT66). */
        subnet6: Type.String({ default: 'fd62:6572:7468::/64', pattern: '^[0-9a-f:]{2,39}/\\d{1,3}$' }),
        nat_ports: Type.Object(
          {
            start: Type.Integer({ minimum: 1024, maximum: 65535, default: 20000 }),
            end: Type.Integer({ minimum: 1024, maximum: 65535, default: 59999 }),
            /** Maximum number of mapped ports of one guest; tcp and udp are counted separately. */
            per_guest: Type.Integer({ minimum: 1, maximum: 64512, default: 4000 }),
          },
          object,
        ),
        /**
         * Interfaces on which IPv6 prefixes are found, and to which a pool without an interface belongs if the default
         * route uses them; empty: those with hardware, including their bonds and VLANs.
         */
        uplinks: Type.Array(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$' }), {
          default: [],
          maxItems: 16,
        }),
        /**
         * Addresses and CIDRs closed to guests, except port 53 of name servers there: clouds give hosts their user data
         * and credentials at these. Link-local addresses are always closed.
         */
        closed_destinations: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}(/\\d{1,3})?$' }), {
          default: [
            '168.63.129.16', // Azure
            '100.100.100.200', // Alibaba
            '192.0.0.192', // Oracle
            'fd00:ec2::254', // Amazon
            'fd00:c1::a9fe:a9fe', // Oracle
            'fd20:ce::254', // Google
            'fd00:42::42', // Scaleway
          ],
          maxItems: 256,
        }),
        /** Name servers for guests; empty: the host's except loopback ones, otherwise 9.9.9.9 and 1.1.1.1. */
        resolvers: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}$' }), {
          default: [],
          maxItems: 3,
        }),
      },
      object,
    ),
    traffic: Type.Object(
      {
        /**
         * Day of the month on which counting of traffic restarts, in `time_zone`; 29 to 31: the last day in shorter
         * months.
         */
        reset_day: Type.Integer({ minimum: 1, maximum: 31, default: 1 }),
        /**
         * Seconds between checks of quotas and expiries; while no guest has a quota, counters are read at every third
         * check.
         */
        interval_seconds: Type.Integer({ minimum: 1, maximum: 60, default: 3 }),
        /** True: traffic between guests of this host counts, too. */
        count_internal: Type.Boolean({ default: false }),
        /** Rate of a guest that is throttled because its quota is used up. */
        throttle_mbps: Type.Integer({ minimum: 1, maximum: 400_000, default: 10 }),
      },
      object,
    ),
    storage: Type.Object(
      {
        /** Mount point of the pool. */
        pool: absolutePath('/var/lib/berth/pool'),
        /** btrfs block device of the pool; empty: `pool` is already mounted, or is created on a loop file. */
        device: Type.String({ default: '', pattern: '^(/dev/[A-Za-z0-9/_.-]+)?$' }),
        loop_file: absolutePath('/var/lib/berth/pool.img'),
        /** Size of a new, sparse loop file; 0: nine tenths of the free space. */
        loop_size_gb: Type.Integer({ minimum: 0, maximum: 65536, default: 0 }),
      },
      object,
    ),
    swap: Type.Object(
      {
        /**
         * The host's swap file that the API creates, in a separate directory. While it is resized, a second file is
         * next to it. Empty: `swap/swapfile` in `state_dir`.
         */
        file: Type.String({ pattern: '^(/[^\\n]*[^/\\n])?$', default: '' }),
        /** systemd's directory of units: a unit there activates the swap file at boot. */
        unit_dir: absolutePath('/etc/systemd/system'),
      },
      object,
    ),
    lxc: Type.Object(
      {
        enabled: Type.Boolean({ default: true }),
        /** First host uid/gid for guests, which get 65,536 each. */
        idmap_base: Type.Integer({ minimum: 65536, maximum: 4294901760, default: 1000000 }),
        idmap_slots: Type.Integer({ minimum: 1, maximum: 65000, default: 30000 }),
        pids_max: Type.Integer({ minimum: 32, maximum: 4194304, default: 1024 }),
        /** Swap that a guest may use, as a fraction of its RAM. */
        swap_ratio: Type.Number({ minimum: 0, maximum: 8, default: 0.5 }),
        stop_timeout_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 30 }),
        /** System calls that are closed to guests by default and that this host allows: docs/security.md. */
        allow: Type.Array(Type.Union([Type.Literal('packet-rings'), Type.Literal('sockets-32bit')]), {
          default: [],
          uniqueItems: true,
        }),
      },
      object,
    ),
    kvm: Type.Object(
      {
        /** True: the host runs virtual machines if QEMU is installed. */
        enabled: Type.Boolean({ default: true }),
        /** Time that a virtual machine may take to shut down. */
        stop_timeout_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 60 }),
        /** Image of a CD with drivers of virtual devices, which Windows gets in its second drive. Empty: no such CD. */
        virtio_iso: Type.String({ default: '', pattern: '^(/[^:]+)?$' }),
      },
      object,
    ),
    images: Type.Object(
      {
        /** Debian mirror for building images. */
        debian_mirror: Type.String({
          default: 'http://deb.debian.org/debian',
          pattern: '^https?://[^\\s"\'\\\\]+$',
        }),
        /** Server of images that are not built on this host; speaks simplestreams. */
        server: Type.String({
          default: 'https://images.linuxcontainers.org',
          pattern: '^https?://[^\\s"\'\\\\]+$',
        }),
        /** True: images may be downloaded by http, too. */
        allow_http: Type.Boolean({ default: false }),
        /** Addresses and CIDRs that images may be downloaded from although they are private, special or this host's. */
        allowed_targets: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}(/\\d{1,3})?$' }), {
          default: [],
          maxItems: 256,
        }),
        /** Maximum size of a downloaded image file. */
        max_download_gb: Type.Integer({ minimum: 1, maximum: 65536, default: 20 }),
        /** Maximum size of an unpacked image. */
        max_image_gb: Type.Integer({ minimum: 1, maximum: 65536, default: 40 }),
        /**
         * Directory to which administrators copy image files; their URL is `upload:NAME`. Empty: `uploads` in the state
         * directory.
         */
        uploads: Type.String({ default: '', pattern: '^(/[^\\0]+)?$' }),
        /** Templates whose images are created at start instead of at their first use. */
        prefetch: Type.Array(Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,62}$' }), { default: [] }),
      },
      object,
    ),
    operations: Type.Object(
      {
        /** Maximum number of operations that run in parallel. */
        parallel: Type.Integer({ minimum: 1, maximum: 256, default: 8 }),
        /** Number of days for which ended operations are stored. */
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 30 }),
        /** Maximum number of stored operations; the oldest are removed first. */
        keep: Type.Integer({ minimum: 100, maximum: 1_000_000, default: 20_000 }),
        /**
         * Maximum number of ids of removed operations, and of settings, that are remembered for two days so that a
         * repetition does nothing.
         */
        remember: Type.Integer({ minimum: 1000, maximum: 10_000_000, default: 100_000 }),
      },
      object,
    ),
    security: Type.Object(
      {
        /** True: guests are watched for abuse. */
        enabled: Type.Boolean({ default: true }),
        /** Seconds between two evaluations. */
        interval_seconds: Type.Integer({ minimum: 1, maximum: 60, default: 10 }),
        /** True: the first bytes of connections are inspected for mining and proxies. They are not stored. */
        payload: Type.Boolean({ default: true }),
        /** True: guests may not connect to port 25 of others, unless their own setting allows it. */
        close_smtp: Type.Boolean({ default: true }),
        /** Seconds between a critical alert and the stop that follows it. */
        grace_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 60 }),
        /** Number of days for which alerts are stored, and their maximum number. */
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 90 }),
        keep: Type.Integer({ minimum: 100, maximum: keptAlerts, default: keptAlerts }),
        ...thresholdSchemas,
      },
      object,
    ),
    backups: Type.Object(
      {
        /** Maximum number of disks that are sent, read back or fetched in parallel. */
        parallel: Type.Integer({ minimum: 1, maximum: 64, default: 2 }),
        /** How long a target may fail before the operation that uses it fails. */
        patience_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 60 }),
        /** Memory limit in MiB of each transfer, which reads the target's data into memory. */
        memory_mb: Type.Integer({ minimum: 512, maximum: 1_048_576, default: 2048 }),
      },
      object,
    ),
    consoles: Type.Object(
      {
        /** How long a terminal and its programs stay after the connection to its user is lost; 0: they end at once. */
        keep_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 120 }),
      },
      object,
    ),
    metrics: Type.Object(
      {
        guest_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 10 }),
        host_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 5 }),
        /** Seconds for which minutes of history are collected before they are written; a crash loses this much. */
        history_write_seconds: Type.Integer({ minimum: 60, maximum: 3600, default: 300 }),
      },
      object,
    ),
    /** Seconds between two full comparisons of the host with the journal. */
    reconcile_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 30 }),
  },
  { additionalProperties: false },
)

export type AgentConfig = Static<typeof AgentConfigSchema>
