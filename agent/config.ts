import { Type, type Static } from 'typebox'

const object = { additionalProperties: false, default: {} }
const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
const ipv4Cidr = '^\\d{1,3}(\\.\\d{1,3}){3}/\\d{1,2}$'

/** agent.yaml. Every key has a default; `systemd/agent.example.yaml` documents each. */
export const AgentConfigSchema = Type.Object(
  {
    /** Journal, keys, guest configurations. */
    state_dir: absolutePath('/var/lib/berth/agent'),
    /** Sockets and marks that a reboot may clear. */
    run_dir: absolutePath('/run/berth/agent'),
    /** host:port of the gRPC server; only the gateway connects. */
    listen: Type.String({ default: '127.0.0.1:7443', pattern: '^.+:\\d{1,5}$' }),
    log_level: Type.Union(
      (['trace', 'debug', 'info', 'warn', 'error'] as const).map((level) => Type.Literal(level)),
      { default: 'info' },
    ),
    /** IANA name; empty: the host's. */
    time_zone: Type.String({ default: '' }),
    network: Type.Object(
      {
        bridge: Type.String({ default: 'berth0', pattern: '^[a-z][a-z0-9-]{0,14}$' }),
        /** Name of the nft table in each family. */
        table: Type.String({ default: 'berth', pattern: '^[a-z][a-z0-9_]{0,30}$' }),
        /** Prefix of host-side guest interfaces; the guest's id follows. */
        interface_prefix: Type.String({ default: 'bt', pattern: '^[a-z]{1,4}$' }),
        /** First host address is the gateway. */
        subnet: Type.String({ default: '10.64.0.0/16', pattern: ipv4Cidr }),
        /** Private IPv6 network of guests where the host has an address but no prefix for them (NAT66). */
        subnet6: Type.String({ default: 'fd62:6572:7468::/64', pattern: '^[0-9a-f:]{2,39}/\\d{1,3}$' }),
        nat_ports: Type.Object(
          {
            start: Type.Integer({ minimum: 1024, maximum: 65535, default: 20000 }),
            end: Type.Integer({ minimum: 1024, maximum: 65535, default: 59999 }),
            /** Those that one guest may have, over all its mappings; over tcp and udp each counts. */
            per_guest: Type.Integer({ minimum: 1, maximum: 64512, default: 4000 }),
          },
          object,
        ),
        /**
         * Interfaces that IPv6 prefixes are found on, and that a pool belongs on which names none, where the default
         * route leads there; empty: those of the host's hardware, with bonds and VLANs of it.
         */
        uplinks: Type.Array(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$' }), {
          default: [],
          maxItems: 16,
        }),
        /**
         * Addresses and CIDRs that no guest reaches, but name servers of the host there: where clouds tell hosts their
         * user data and credentials. Beside those that are link-local, which no guest reaches in any case.
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
        /** Name servers of guests; empty: the host's, without loopback ones, else 9.9.9.9 and 1.1.1.1. */
        resolvers: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}$' }), {
          default: [],
          maxItems: 3,
        }),
      },
      object,
    ),
    traffic: Type.Object(
      {
        /** Day of the month on which guests' counts begin anew, in `time_zone`. */
        reset_day: Type.Integer({ minimum: 1, maximum: 28, default: 1 }),
        /** Seconds between two looks at quotas and expiries; counters without any quota are read at every third. */
        interval_seconds: Type.Integer({ minimum: 1, maximum: 60, default: 3 }),
        /** Count what guests of this host send one another, too. */
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
        /** btrfs block device for the pool; empty: `pool` is mounted already or is made on a loop file. */
        device: Type.String({ default: '', pattern: '^(/dev/[A-Za-z0-9/_.-]+)?$' }),
        loop_file: absolutePath('/var/lib/berth/pool.img'),
        /** Size of a new loop file; sparse. 0: nine tenths of what is free. */
        loop_size_gb: Type.Integer({ minimum: 0, maximum: 65536, default: 0 }),
      },
      object,
    ),
    lxc: Type.Object(
      {
        enabled: Type.Boolean({ default: true }),
        /** First host uid/gid handed to guests, 65,536 each. */
        idmap_base: Type.Integer({ minimum: 65536, maximum: 4294901760, default: 1000000 }),
        idmap_slots: Type.Integer({ minimum: 1, maximum: 65000, default: 30000 }),
        pids_max: Type.Integer({ minimum: 32, maximum: 4194304, default: 1024 }),
        /** Swap a guest may use, as a share of its RAM. */
        swap_ratio: Type.Number({ minimum: 0, maximum: 8, default: 0.5 }),
        stop_timeout_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 30 }),
        /** System calls that are closed otherwise: docs/security.md. */
        allow: Type.Array(Type.Union([Type.Literal('packet-rings'), Type.Literal('sockets-32bit')]), {
          default: [],
          uniqueItems: true,
        }),
      },
      object,
    ),
    images: Type.Object(
      {
        /** Debian mirror that images are built from. */
        debian_mirror: Type.String({
          default: 'http://deb.debian.org/debian',
          pattern: '^https?://[^\\s"\'\\\\]+$',
        }),
        /** Templates built at start rather than at first use. */
        prefetch: Type.Array(Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,62}$' }), { default: [] }),
      },
      object,
    ),
    operations: Type.Object(
      {
        /** Operations that run at once. */
        parallel: Type.Integer({ minimum: 1, maximum: 256, default: 8 }),
        /** Ended operations kept, in days. */
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 30 }),
      },
      object,
    ),
    backups: Type.Object(
      {
        /** Disks that are sent, read back or fetched at once. */
        parallel: Type.Integer({ minimum: 1, maximum: 64, default: 2 }),
        /** How long a target may fail before what is being done with it fails. */
        patience_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 60 }),
      },
      object,
    ),
    metrics: Type.Object(
      {
        guest_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 10 }),
        host_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 5 }),
      },
      object,
    ),
    /** Seconds between two full comparisons of the host with the journal. */
    reconcile_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 30 }),
  },
  { additionalProperties: false },
)

export type AgentConfig = Static<typeof AgentConfigSchema>
