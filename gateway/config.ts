import { Type, type Static } from 'typebox'
import type { Retention } from './access/retention.js'

const object = { additionalProperties: false, default: {} }
const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
const requests = (value: number) => Type.Integer({ minimum: 0, maximum: 1000000, default: value })
const hostPort = (value: string) => Type.String({ default: value, pattern: '^.+:\\d{1,5}$' })

/** gateway.yaml. Every key has a default; `systemd/gateway.example.yaml` documents each. */
export const GatewayConfigSchema = Type.Object(
  {
    /** CA, certificates, secret, private Redis. */
    state_dir: absolutePath('/var/lib/berth/gateway'),
    run_dir: absolutePath('/run/berth/gateway'),
    /** HTTP API. */
    listen: hostPort('127.0.0.1:8080'),
    /** TLS endpoint where agents join; its certificate is the private CA's. */
    join_listen: hostPort('127.0.0.1:8081'),
    /** Address agents reach `join_listen` at, put into join tokens; empty: join_listen. */
    join_address: Type.String({ default: '' }),
    log_level: Type.Union(
      (['trace', 'debug', 'info', 'warn', 'error'] as const).map((level) => Type.Literal(level)),
      { default: 'info' },
    ),
    /** IANA name in which times are shown and read; empty: the host's. */
    time_zone: Type.String({ default: '' }),
    redis: Type.Object(
      {
        /** Existing server; empty: a private one is started. BERTH_REDIS_URL overrides. */
        url: Type.String({ default: '' }),
        /** Prefix of every key, so that several Berths can share a server. */
        prefix: Type.String({ default: 'berth:', pattern: '^[a-z0-9:_-]{0,32}$' }),
        /** Program of the private server. */
        program: absolutePath('/usr/bin/redis-server'),
      },
      object,
    ),
    http: Type.Object(
      {
        max_body_bytes: Type.Integer({ minimum: 1024, maximum: 67108864, default: 1048576 }),
        /** Addresses or CIDRs of proxies whose forwarded-for headers count. */
        trusted_proxies: Type.Array(Type.String(), { default: [] }),
        metrics: Type.Union(
          (['loopback_or_key', 'loopback', 'key'] as const).map((word) => Type.Literal(word)),
          { default: 'loopback_or_key' },
        ),
      },
      object,
    ),
    /** Requests allowed of each API key, and of each source address (IPv6: /64). Every gateway counts its own. */
    limits: Type.Object(
      {
        /** 0: no limit; so for all of these but the last. */
        key_requests_per_second: requests(1000),
        /** In progress at the same time. */
        key_requests_at_once: requests(256),
        address_requests_per_second: requests(2000),
        address_requests_at_once: requests(512),
        /** Failed authentications that are answered as such, by source address. */
        auth_failures_per_minute: Type.Integer({ minimum: 1, maximum: 1000000, default: 30 }),
      },
      object,
    ),
    agents: Type.Object(
      {
        call_timeout_ms: Type.Integer({ minimum: 100, maximum: 600000, default: 10000 }),
        /** No sign of life for this long: the host is offline. */
        silence_ms: Type.Integer({ minimum: 500, maximum: 600000, default: 15000 }),
        /** How long a broken connection may take to come back before the host is offline. */
        reconnect_ms: Type.Integer({ minimum: 0, maximum: 600000, default: 1000 }),
      },
      object,
    ),
    certificates: Type.Object(
      {
        ca_days: Type.Integer({ minimum: 1, maximum: 36500, default: 3650 }),
        /** Lifetime of agent and gateway certificates; renewed after two thirds. */
        leaf_hours: Type.Number({ exclusiveMinimum: 0, maximum: 87600, default: 720 }),
      },
      object,
    ),
    /** How many times what a host has may be promised to its guests; 0: without limit. */
    placement: Type.Object(
      {
        cpu_ratio: Type.Number({ minimum: 0, maximum: 1000, default: 0 }),
        ram_ratio: Type.Number({ minimum: 0, maximum: 1000, default: 4 }),
        disk_ratio: Type.Number({ minimum: 0, maximum: 1000, default: 10 }),
      },
      object,
    ),
    join_token_minutes: Type.Integer({ minimum: 1, maximum: 10080, default: 60 }),
    audit: Type.Object(
      {
        /** Entries: the oldest go first. */
        keep: Type.Integer({ minimum: 100, maximum: 10000000, default: 100000 }),
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 365 }),
      },
      object,
    ),
    /** Answers to requests with an Idempotency-Key, for their repeats. */
    idempotency: Type.Object(
      {
        keep_hours: Type.Integer({ minimum: 1, maximum: 24, default: 24 }),
        /** Of all callers together: the oldest go first. */
        keep: Type.Integer({ minimum: 1000, maximum: 10000000, default: 100000 }),
      },
      object,
    ),
  },
  { additionalProperties: false },
)

/** The limits as access control takes them. */
export function limitsOf({ limits }: GatewayConfig) {
  return {
    caller: { perSecond: limits.key_requests_per_second, atOnce: limits.key_requests_at_once },
    address: { perSecond: limits.address_requests_per_second, atOnce: limits.address_requests_at_once },
    authFailuresPerMinute: limits.auth_failures_per_minute,
  }
}

/** How much is kept, as access control takes it. */
export function retentionOf({ audit, idempotency }: GatewayConfig): Retention {
  return { auditDays: audit.keep_days, repeatHours: idempotency.keep_hours, repeats: idempotency.keep }
}

export type GatewayConfig = Static<typeof GatewayConfigSchema>
