import { Type, type Static } from 'typebox'
import { absolutePath, section } from './config/fields.js'
import { imagesSchema } from './config/images.js'
import { networkSchema } from './config/network.js'
import { securitySchema } from './config/security.js'

/** Schema of agent.yaml. Every setting has a default, and `systemd/agent.example.yaml` explains each of them. */
export const AgentConfigSchema = Type.Object(
  {
    /** Directory of the journal, private keys and guests' configurations. */
    state_dir: absolutePath('/var/lib/berth/agent'),
    /** Directory of sockets and other files that are not needed after a reboot. */
    run_dir: absolutePath('/run/berth/agent'),
    /** Address and port (`host:port`) on which the agent's gRPC server listens for the gateway. */
    listen: Type.String({ default: '127.0.0.1:7443', pattern: '^.+:\\d{1,5}$' }),
    log_level: Type.Union(
      (['trace', 'debug', 'info', 'warn', 'error'] as const).map((level) => Type.Literal(level)),
      { default: 'info' },
    ),
    /** IANA name of the time zone. Empty: the host's time zone. */
    time_zone: Type.String({ default: '' }),
    network: networkSchema,
    traffic: Type.Object(
      {
        /**
         * Day of the month, in `time_zone`, on which the count of traffic starts again. In shorter months, 29 to 31
         * mean the last day.
         */
        reset_day: Type.Integer({ minimum: 1, maximum: 31, default: 1 }),
        /**
         * Seconds between checks of the guests' traffic quotas and expiry times. While no guest has a quota, only every
         * third check reads the counters.
         */
        interval_seconds: Type.Integer({ minimum: 1, maximum: 60, default: 3 }),
        /** True if traffic between guests of this host is counted, too. */
        count_internal: Type.Boolean({ default: false }),
        /** Rate in Mbit/s of a guest that is throttled because its quota is used up. */
        throttle_mbps: Type.Integer({ minimum: 1, maximum: 400_000, default: 10 }),
      },
      section,
    ),
    storage: Type.Object(
      {
        /** Mount point of the pool. */
        pool: absolutePath('/var/lib/berth/pool'),
        /** btrfs block device of the pool. Empty: `pool` is already mounted, or is created on a loop file. */
        device: Type.String({ default: '', pattern: '^(/dev/[A-Za-z0-9/_.-]+)?$' }),
        loop_file: absolutePath('/var/lib/berth/pool.img'),
        /** Size in GiB of a new, sparse loop file. 0: nine tenths of the free space. */
        loop_size_gb: Type.Integer({ minimum: 0, maximum: 65536, default: 0 }),
      },
      section,
    ),
    swap: Type.Object(
      {
        /**
         * Path of the host's swap file, which the API creates. A resize temporarily creates a second file next to it.
         * Empty: `swap/swapfile` in `state_dir`.
         */
        file: Type.String({ pattern: '^(/[^\\n]*[^/\\n])?$', default: '' }),
        /** systemd's directory of units. A unit in it activates the swap file at boot. */
        unit_dir: absolutePath('/etc/systemd/system'),
      },
      section,
    ),
    lxc: Type.Object(
      {
        enabled: Type.Boolean({ default: true }),
        /** First uid and gid on the host that guests get. Each guest gets 65,536 uids and gids. */
        idmap_base: Type.Integer({ minimum: 65536, maximum: 4294901760, default: 1000000 }),
        idmap_slots: Type.Integer({ minimum: 1, maximum: 65000, default: 30000 }),
        pids_max: Type.Integer({ minimum: 32, maximum: 4194304, default: 1024 }),
        /** Swap that a guest is allowed to use, as a fraction of its RAM. */
        swap_ratio: Type.Number({ minimum: 0, maximum: 8, default: 0.5 }),
        stop_timeout_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 30 }),
        /** System calls that this host allows to guests, although the default forbids them (docs/security.md). */
        allow: Type.Array(Type.Union([Type.Literal('packet-rings'), Type.Literal('sockets-32bit')]), {
          default: [],
          uniqueItems: true,
        }),
      },
      section,
    ),
    kvm: Type.Object(
      {
        /** True if the host runs virtual machines, provided that QEMU is installed. */
        enabled: Type.Boolean({ default: true }),
        /** Seconds from the request to shut down until a virtual machine that still runs is killed. */
        stop_timeout_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 60 }),
        /** CD image with drivers for virtual devices. Windows guests get it in a second drive. Empty: no such drive. */
        virtio_iso: Type.String({ default: '', pattern: '^(/[^:]+)?$' }),
      },
      section,
    ),
    images: imagesSchema,
    operations: Type.Object(
      {
        /** Maximum number of operations that run in parallel. */
        parallel: Type.Integer({ minimum: 1, maximum: 256, default: 8 }),
        /** Number of days for which finished operations are stored. */
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 30 }),
        /** Maximum number of stored operations. The oldest ones are removed first. */
        keep: Type.Integer({ minimum: 100, maximum: 1_000_000, default: 20_000 }),
        /**
         * Maximum number of remembered ids, separately for removed operations and for changes of settings. Ids are
         * remembered for two days, so that a repeated request does nothing.
         */
        remember: Type.Integer({ minimum: 1000, maximum: 10_000_000, default: 100_000 }),
      },
      section,
    ),
    security: securitySchema,
    backups: Type.Object(
      {
        /** Maximum number of disks that are backed up, verified or restored in parallel. */
        parallel: Type.Integer({ minimum: 1, maximum: 64, default: 2 }),
        /** Seconds for which a backup target can fail before the operation that uses the target fails. */
        patience_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 60 }),
        /** Memory limit in MiB of each backup or restore. A repository of about 100 TB needs more than the default. */
        memory_mb: Type.Integer({ minimum: 512, maximum: 1_048_576, default: 2048 }),
      },
      section,
    ),
    consoles: Type.Object(
      {
        /** Seconds for which a terminal and its programs stay after the connection is lost. 0: they end at once. */
        keep_seconds: Type.Integer({ minimum: 0, maximum: 600, default: 120 }),
      },
      section,
    ),
    metrics: Type.Object(
      {
        guest_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 10 }),
        host_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 5 }),
        /** Seconds of history that are collected in memory before they are written. A crash loses this much. */
        history_write_seconds: Type.Integer({ minimum: 60, maximum: 3600, default: 300 }),
      },
      section,
    ),
    /** Seconds between two full comparisons of the host with the journal. */
    reconcile_interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, default: 30 }),
    /**
     * Longest wait in seconds after a boot of the host until a gateway has checked which guests belong to other hosts.
     * Guests are not started before. They may have been restored on other hosts while this host was down. After this
     * time, all guests are started. 0: guests are started at once. `auto`: without a limit if the fleet has other hosts,
     * otherwise 60.
     */
    owner_check_seconds: Type.Union([Type.Literal('auto'), Type.Integer({ minimum: 0, maximum: 86400 })], {
      default: 'auto',
    }),
  },
  { additionalProperties: false },
)

export type AgentConfig = Static<typeof AgentConfigSchema>
