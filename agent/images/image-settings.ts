import type { AgentConfig } from '../config.js'
import type { FetchParts } from './fetch.js'
import type { TargetPolicy } from '../../shared/outbound-targets.js'

const gib = 1024 ** 3
const idRange = 65_536
/** First user id of the last range that guests can use. The next range would contain the invalid id 2^32 - 1. */
const lastBase = 2 ** 32 - 2 * idRange

export function targetPolicy(config: AgentConfig['images']): TargetPolicy {
  return {
    allowHttp: config.allow_http,
    allowedTargets: config.allowed_targets,
    setting: 'images.allowed_targets',
  }
}

export function fetchSettings(config: AgentConfig['images']): Pick<FetchParts, 'policy' | 'server' | 'maxBytes'> {
  return { policy: targetPolicy(config), server: config.server, maxBytes: config.max_download_gb * gib }
}

/**
 * Returns the first of 65,536 user ids that guests do not use. These ids are above those of guests. If too few ids are
 * left above, the returned ids are directly below those of guests, but still far above the host's own ids.
 */
export function planFreeUserIds({ idmap_base: base, idmap_slots: slots }: AgentConfig['lxc']): number {
  const behind = base + slots * idRange
  return behind <= lastBase ? behind : base - idRange
}
