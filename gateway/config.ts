import { Type, type Static } from 'typebox'
import type { TargetPolicy } from '../shared/outbound-targets.js'

const object = { additionalProperties: false, default: {} }
const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
const requests = (value: number) => Type.Integer({ minimum: 0, maximum: 1000000, default: value })
const optionalHostPort = (value: string) => Type.String({ default: value, pattern: '^(.+:\\d{1,5})?$' })
const hostPort = (value: string) => Type.String({ default: value, pattern: '^.+:\\d{1,5}$' })

/** Schema of gateway.yaml. Every key has a default; `systemd/gateway.example.yaml` documents each. */
export const GatewayConfigSchema = Type.Object(
  {
    /** CA, certificates, secret, data of the private Redis. */
    state_dir: absolutePath('/var/lib/berth/gateway'),
    run_dir: absolutePath('/run/berth/gateway'),
    /** host:port of the HTTP API. */
    listen: hostPort('127.0.0.1:8080'),
    /** host:port of the HTTP API over TLS, once `PUT /ssl` turns it on; empty: never. */
    tls_listen: optionalHostPort('[::]:443'),
    /** host:port for challenges of certificate authorities and redirects, while TLS is on; empty: never. */
    http_listen: optionalHostPort('[::]:80'),
    /** host:port of the TLS endpoint where agents join; its certificate is the private CA's. */
    join_listen: hostPort('127.0.0.1:8081'),
    /** Address of `join_listen` as agents reach it, put into join tokens; empty: join_listen. */
    join_address: Type.String({ default: '' }),
    /** Signed repository with the packages that new hosts are installed from; the package berth-repository contains it. */
    packages_dir: Type.String({ default: '/usr/share/berth/packages' }),
    log_level: Type.Union(
      (['trace', 'debug', 'info', 'warn', 'error'] as const).map((level) => Type.Literal(level)),
      { default: 'info' },
    ),
    /** IANA name of the zone for times of the API; empty: the host's. */
    time_zone: Type.String({ default: '' }),
    redis: Type.Object(
      {
        /** Existing server; empty: starts a private one. BERTH_REDIS_URL overrides it. */
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
        /** Addresses or CIDRs of proxies whose forwarded-for headers are trusted. */
        trusted_proxies: Type.Array(Type.String(), { default: [] }),
        metrics: Type.Union(
          (['loopback_or_key', 'loopback', 'key'] as const).map((word) => Type.Literal(word)),
          { default: 'loopback_or_key' },
        ),
      },
      object,
    ),
    /** Limits for each API key and each source address (IPv6: /64). Every gateway counts separately. */
    limits: Type.Object(
      {
        /** 0: no limit; the same for all others except the last. */
        key_requests_per_second: requests(1000),
        /** Requests in progress at the same time. */
        key_requests_at_once: requests(256),
        address_requests_per_second: requests(2000),
        address_requests_at_once: requests(512),
        /** Failed authentications per source address before they are answered with 429. */
        auth_failures_per_minute: Type.Integer({ minimum: 1, maximum: 1000000, default: 30 }),
        /** API keys and sub-users that exist at a time, of each limited key and of all unlimited callers together. */
        api_keys: Type.Integer({ minimum: 1, maximum: 100000, default: 10000 }),
        sub_users: Type.Integer({ minimum: 1, maximum: 1000000, default: 50000 }),
        /** The same of each caller that is bound to containers, with the keys that it created. */
        bound_api_keys: Type.Integer({ minimum: 1, maximum: 100000, default: 100 }),
        bound_sub_users: Type.Integer({ minimum: 1, maximum: 1000000, default: 500 }),
      },
      object,
    ),
    agents: Type.Object(
      {
        call_timeout_ms: Type.Integer({ minimum: 100, maximum: 600000, default: 10000 }),
        /** A host is offline after this long without a sign of life. */
        silence_ms: Type.Integer({ minimum: 500, maximum: 600000, default: 15000 }),
        /** A host counts as offline if its connection has been broken for this long. Calls wait meanwhile. */
        reconnect_ms: Type.Integer({ minimum: 0, maximum: 600000, default: 1000 }),
      },
      object,
    ),
    certificates: Type.Object(
      {
        ca_days: Type.Integer({ minimum: 1, maximum: 36500, default: 3650 }),
        /** Lifetime of agents' and the gateway's certificates; they are renewed after two thirds. */
        leaf_hours: Type.Number({ exclusiveMinimum: 0, maximum: 87600, default: 720 }),
      },
      object,
    ),
    /** The certificate authority of mode `letsencrypt`. */
    acme: Type.Object(
      {
        directory: Type.String({
          default: 'https://acme-v02.api.letsencrypt.org/directory',
          pattern: '^https://[^\\s]+$',
        }),
        /** File with PEM certificates that its server may use in addition to the usual ones; empty: none. */
        ca_file: Type.String({ default: '', pattern: '^(/[^\\n]*)?$' }),
      },
      object,
    ),
    /** Permitted URLs of webhooks. */
    webhooks: Type.Object(
      {
        /** Permits http in addition to https. */
        allow_http: Type.Boolean({ default: false }),
        /** Permitted addresses and CIDRs, although they are private, special or this machine's own. */
        allowed_targets: Type.Array(Type.String({ maxLength: 64 }), { default: [], maxItems: 256 }),
      },
      object,
    ),
    /** How many times a host's resources may be promised to guests; 0: without limit. */
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
        /** Most entries: the oldest are deleted first. */
        keep: Type.Integer({ minimum: 100, maximum: 10000000, default: 100000 }),
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 365 }),
      },
      object,
    ),
    /** Limits for successful logins, and separately for failed ones. */
    login_log: Type.Object(
      {
        /** Most rows: the oldest are deleted first. */
        keep: Type.Integer({ minimum: 100, maximum: 100000, default: 10000 }),
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 90 }),
      },
      object,
    ),
    /** Retention of answers to requests with an Idempotency-Key, for their repetitions. */
    idempotency: Type.Object(
      {
        keep_hours: Type.Integer({ minimum: 1, maximum: 24, default: 24 }),
        /** For all callers together: the oldest are deleted first. */
        keep: Type.Integer({ minimum: 1000, maximum: 10000000, default: 100000 }),
      },
      object,
    ),
  },
  { additionalProperties: false },
)

/** Converts the limits for access control. */
export function limitsOf({ limits }: GatewayConfig) {
  return {
    caller: { perSecond: limits.key_requests_per_second, atOnce: limits.key_requests_at_once },
    address: { perSecond: limits.address_requests_per_second, atOnce: limits.address_requests_at_once },
    authFailuresPerMinute: limits.auth_failures_per_minute,
    creation: {
      apiKeys: { bound: limits.bound_api_keys, others: limits.api_keys },
      subUsers: { bound: limits.bound_sub_users, others: limits.sub_users },
    },
  }
}

/** Policy for the URLs of webhooks. */
export function webhookPolicy({ webhooks }: GatewayConfig): TargetPolicy {
  const { allow_http: allowHttp, allowed_targets: allowedTargets } = webhooks
  return { allowHttp, allowedTargets, setting: 'webhooks.allowed_targets' }
}

/** Converts the retention settings for access control. */
export function retentionOf({ audit, idempotency, login_log: logins }: GatewayConfig) {
  return {
    auditDays: audit.keep_days,
    repeatHours: idempotency.keep_hours,
    repeats: idempotency.keep,
    logins: { keep: logins.keep, days: logins.keep_days },
  }
}

export type GatewayConfig = Static<typeof GatewayConfigSchema>
