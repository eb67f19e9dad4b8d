import { Type, type Static } from 'typebox'
import type { TargetPolicy } from '../shared/outbound-targets.js'

const object = { additionalProperties: false, default: {} }
const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
const requests = (value: number) => Type.Integer({ minimum: 0, maximum: 1000000, default: value })
const optionalHostPort = (value: string) => Type.String({ default: value, pattern: '^(.+:\\d{1,5})?$' })
const optionalPath = Type.String({ default: '', pattern: '^(/[^\\n]*)?$' })
const hostPort = (value: string) => Type.String({ default: value, pattern: '^.+:\\d{1,5}$' })

/** Schema of gateway.yaml. Every key has a default; `systemd/gateway.example.yaml` documents all keys. */
export const GatewayConfigSchema = Type.Object(
  {
    /** Directory for the CA, certificates, the gateway's secret, and the data of the private Redis. */
    state_dir: absolutePath('/var/lib/berth/gateway'),
    run_dir: absolutePath('/run/berth/gateway'),
    listen: hostPort('127.0.0.1:8080'),
    /** host:port for the HTTP API over TLS, which `PUT /ssl` enables. Empty: TLS is not offered. */
    tls_listen: optionalHostPort('[::]:443'),
    /** host:port for challenges of certificate authorities and for redirects while TLS is on. Empty: not offered. */
    http_listen: optionalHostPort('[::]:80'),
    /** host:port of the endpoint at which agents join. Its certificate is issued by the private CA. */
    join_listen: hostPort('127.0.0.1:8081'),
    /** host:port at which agents reach `join_listen`. It is part of join tokens. Empty: the value of join_listen. */
    join_address: Type.String({ default: '' }),
    /** Directory of a signed repository with packages for new hosts. The package berth-repository contains it. */
    packages_dir: Type.String({ default: '/usr/share/berth/packages' }),
    log_level: Type.Union(
      (['trace', 'debug', 'info', 'warn', 'error'] as const).map((level) => Type.Literal(level)),
      { default: 'info' },
    ),
    /** IANA name of the time zone for times in the API. Empty: the time zone of the gateway's server. */
    time_zone: Type.String({ default: '' }),
    redis: Type.Object(
      {
        /** URL of an existing Redis server. Empty: the gateway starts a private one. BERTH_REDIS_URL overrides it. */
        url: Type.String({ default: '' }),
        /** Addresses of the Sentinels, as host:port. Empty: the server of `url` is used. */
        sentinels: Type.Array(Type.String({ pattern: '^.+:\\d{1,5}$' }), { default: [], maxItems: 16 }),
        /** Name of the master in the configuration of the Sentinels. */
        master_name: Type.String({ default: 'berth', pattern: '^[A-Za-z0-9._-]{1,64}$' }),
        /** User of the access control list. Empty: the default user. */
        username: Type.String({ default: '' }),
        /** Path of a file with the password. Empty: the password in `url` is used, or no password. */
        password_file: optionalPath,
        /** User of the Sentinels. Empty: the default user. */
        sentinel_username: Type.String({ default: '' }),
        /** Path of a file with the password of the Sentinels. Empty: no password. */
        sentinel_password_file: optionalPath,
        /** Encrypts connections to Sentinels and their master. For `url`, use the scheme `rediss://`. */
        tls: Type.Boolean({ default: false }),
        /** Paths of PEM files: certificate authority, and this gateway's certificate and key. Empty: not used. */
        ca_file: optionalPath,
        certificate_file: optionalPath,
        key_file: optionalPath,
        /** Number of replicas that must confirm each write. With Sentinels, at least one replica must confirm. */
        confirming_replicas: Type.Integer({ minimum: 0, maximum: 16, default: 0 }),
        /** Prefix of all keys in Redis, so that several installations can share a server. */
        prefix: Type.String({ default: 'berth:', pattern: '^[a-z0-9:_-]{0,32}$' }),
        /** Path of the program of the private Redis server. */
        program: absolutePath('/usr/bin/redis-server'),
      },
      object,
    ),
    http: Type.Object(
      {
        max_body_bytes: Type.Integer({ minimum: 1024, maximum: 67108864, default: 1048576 }),
        /** Addresses or CIDRs of proxies whose headers about the client are trusted. */
        trusted_proxies: Type.Array(Type.String(), { default: [] }),
        metrics: Type.Union(
          (['loopback_or_key', 'loopback', 'key'] as const).map((word) => Type.Literal(word)),
          { default: 'loopback_or_key' },
        ),
        /** Seconds after the stop signal in which connections are still accepted, although `/readyz` answers 503. */
        drain_seconds: Type.Integer({ minimum: 0, maximum: 60, default: 0 }),
      },
      object,
    ),
    /** Limits of each API key and each source address (IPv6: /64). Each gateway counts separately. */
    limits: Type.Object(
      {
        /** Maximum requests per second of each API key. 0 means no limit, also in the next three settings. */
        key_requests_per_second: requests(1000),
        /** Maximum number of requests of each API key that are in progress at the same time. */
        key_requests_at_once: requests(256),
        address_requests_per_second: requests(2000),
        address_requests_at_once: requests(512),
        /** Maximum failed authentications per minute of each source address. Further failures get 429. */
        auth_failures_per_minute: Type.Integer({ minimum: 1, maximum: 1000000, default: 30 }),
        /** Maximum numbers of objects that each limited key, or all unlimited callers together, may create. */
        api_keys: Type.Integer({ minimum: 1, maximum: 100000, default: 10000 }),
        sub_users: Type.Integer({ minimum: 1, maximum: 1000000, default: 50000 }),
        /** Limits of a caller that may access only some containers. Objects that its keys create count, too. */
        bound_api_keys: Type.Integer({ minimum: 1, maximum: 100000, default: 100 }),
        bound_sub_users: Type.Integer({ minimum: 1, maximum: 1000000, default: 500 }),
      },
      object,
    ),
    agents: Type.Object(
      {
        call_timeout_ms: Type.Integer({ minimum: 100, maximum: 600000, default: 10000 }),
        /** Time in ms without a message from a host after which the host is offline. */
        silence_ms: Type.Integer({ minimum: 500, maximum: 600000, default: 15000 }),
        /**
         * Time in ms from the loss of the connection until the host is offline. Calls to the host wait during this
         * time. After the start of the gateway, calls wait for the first connection for the same time.
         */
        reconnect_ms: Type.Integer({ minimum: 0, maximum: 600000, default: 1000 }),
      },
      object,
    ),
    certificates: Type.Object(
      {
        ca_days: Type.Integer({ minimum: 1, maximum: 36500, default: 3650 }),
        /** Lifetime of the certificates of agents and gateway. After two thirds of this time they are renewed. */
        leaf_hours: Type.Number({ exclusiveMinimum: 0, maximum: 87600, default: 720 }),
      },
      object,
    ),
    /** Certificate authority for TLS in the mode `letsencrypt`. */
    acme: Type.Object(
      {
        directory: Type.String({
          default: 'https://acme-v02.api.letsencrypt.org/directory',
          pattern: '^https://[^\\s]+$',
        }),
        /** Path of a file with additional PEM certificates to trust for the ACME server. Empty: no file. */
        ca_file: optionalPath,
      },
      object,
    ),
    /** Permitted URLs of webhooks. */
    webhooks: Type.Object(
      {
        /** Permits URLs of webhooks with http, in addition to https. */
        allow_http: Type.Boolean({ default: false }),
        /** Addresses and CIDRs that are permitted although they are private, special or addresses of this server. */
        allowed_targets: Type.Array(Type.String({ maxLength: 64 }), { default: [], maxItems: 256 }),
      },
      object,
    ),
    /** Program that turns off a failed host before its guests are restored on other hosts (`POST /hosts/{id}/evacuate`). */
    fencing: Type.Object(
      {
        /** Path of the program. It gets `arguments`, and then id, name and address of the host. Empty: no program. */
        program: optionalPath,
        arguments: Type.Array(Type.String({ maxLength: 1024 }), { default: [], maxItems: 64 }),
        /** Seconds after which the program is killed. The evacuation is refused then. */
        timeout_seconds: Type.Integer({ minimum: 1, maximum: 300, default: 60 }),
      },
      object,
    ),
    /** Overcommit ratio of each resource of a host. 0: no limit. */
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
        /** Maximum number of audit entries. If there are more, callers with the most entries lose the oldest ones. */
        keep: Type.Integer({ minimum: 100, maximum: 10000000, default: 100000 }),
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 365 }),
      },
      object,
    ),
    /** Limits of the login log. They apply separately to successful and to failed logins. */
    login_log: Type.Object(
      {
        /** Maximum number of rows of the login log. The oldest are deleted first. */
        keep: Type.Integer({ minimum: 100, maximum: 100000, default: 10000 }),
        keep_days: Type.Integer({ minimum: 1, maximum: 3650, default: 90 }),
      },
      object,
    ),
    /** Retention of answers to requests with an Idempotency-Key. */
    idempotency: Type.Object(
      {
        keep_hours: Type.Integer({ minimum: 1, maximum: 24, default: 24 }),
        /** Maximum number of stored answers. If there are more, callers with the most answers lose the oldest ones. */
        keep: Type.Integer({ minimum: 1000, maximum: 10000000, default: 100000 }),
      },
      object,
    ),
  },
  { additionalProperties: false },
)

/** Converts the configured limits for access control. */
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

export function webhookPolicy({ webhooks }: GatewayConfig): TargetPolicy {
  const { allow_http: allowHttp, allowed_targets: allowedTargets } = webhooks
  return { allowHttp, allowedTargets, setting: 'webhooks.allowed_targets' }
}

/** Converts the configured retention for access control. */
export function retentionOf({ audit, idempotency, login_log: logins }: GatewayConfig) {
  return {
    auditDays: audit.keep_days,
    repeatHours: idempotency.keep_hours,
    repeats: idempotency.keep,
    logins: { keep: logins.keep, days: logins.keep_days },
  }
}

export type GatewayConfig = Static<typeof GatewayConfigSchema>
