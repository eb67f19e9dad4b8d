import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError } from '../../shared/errors.js'
import type { GatewayConfig } from '../config.js'
import { resolveFiles, storeSettings } from './shared-state.js'

/**
 * Adds the settings of the store that this gateway got when it joined the fleet, unless gateway.yaml names a store.
 * @throws {ConfigError} if the file with these settings is damaged
 */
export function withJoinedStore(config: GatewayConfig): GatewayConfig {
  const { redis, state_dir: stateDir } = config
  if (redis.url !== '' || redis.sentinels.length > 0) return config
  const joined = readSettings(join(stateDir, storeSettings))
  return joined ? { ...config, redis: { ...redis, ...resolveFiles(stateDir, joined) } } : config
}

function readSettings(path: string): Partial<GatewayConfig['redis']> | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Partial<GatewayConfig['redis']>
  } catch (cause) {
    // A missing or unreadable file is ignored. For example, `check-config` without root cannot read the file.
    if (['ENOENT', 'EACCES', 'ENOTDIR'].includes((cause as NodeJS.ErrnoException).code ?? '')) return undefined
    throw new ConfigError(`${path} is damaged: let this gateway join the fleet again`, { cause })
  }
}
