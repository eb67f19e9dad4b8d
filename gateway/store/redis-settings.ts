import { ConfigError } from '../../shared/errors.js'
import { splitHostPort } from '../../shared/join-token.js'
import type { GatewayConfig } from '../config.js'
import type { RedisAccess, RedisTls } from './redis-access.js'
import type { ServerOptions } from './server-finder.js'

export interface RedisChoice {
  readonly redis: GatewayConfig['redis']
  /** Value of BERTH_REDIS_URL, which overrides the configuration. "": not set. */
  readonly redisUrl: string
}

/**
 * Returns the servers that the operator provides. undefined: the gateway uses its private server.
 * @throws {ConfigError} if keys contradict each other
 */
export function externalServerOf({ redis, redisUrl }: RedisChoice): ServerOptions | undefined {
  if (redis.sentinels.length > 0 && redis.url !== '')
    throw new ConfigError('redis.sentinels: cannot be combined with redis.url')
  if (redis.certificate_file !== '' && redis.key_file === '')
    throw new ConfigError('redis.key_file: is required with redis.certificate_file')
  const url = redisUrl || redis.url
  if (url !== '') return { url, access: accessOf(redis, url), confirmingReplicas: redis.confirming_replicas }
  return redis.sentinels.length > 0 ? serversOf(redis) : undefined
}

function serversOf(redis: GatewayConfig['redis']): ServerOptions {
  const tls = redis.tls ? tlsOf(redis) : undefined
  const sentinelAccess = { username: redis.sentinel_username, passwordFile: redis.sentinel_password_file, tls }
  return {
    url: '',
    access: { username: redis.username, passwordFile: redis.password_file, tls },
    sentinels: {
      addresses: redis.sentinels.map(splitHostPort),
      masterName: redis.master_name,
      access: sentinelAccess,
    },
    confirmingReplicas: Math.max(1, redis.confirming_replicas),
  }
}

function accessOf(redis: GatewayConfig['redis'], url: string): RedisAccess {
  const tls = url.startsWith('rediss:') ? tlsOf(redis) : undefined
  return { username: redis.username, passwordFile: redis.password_file, tls }
}

function tlsOf({
  ca_file: caFile,
  certificate_file: certificateFile,
  key_file: keyFile,
}: GatewayConfig['redis']): RedisTls {
  return { caFile, certificateFile, keyFile }
}
