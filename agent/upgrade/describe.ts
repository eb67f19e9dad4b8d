import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { AgentFeature } from '../../shared/agent-features.js'
import type { AgentPackages } from './contract.js'

/** Returns the fields of the host's description that depend on the agent's packages. */
export function describePackages(packages: AgentPackages): Pick<HostDescription, 'features' | 'previousVersion'> {
  const isSupported = packages.isSupported()
  const features: AgentFeature[] = [
    'move',
    'move-offline',
    'move-live',
    'fence',
    'rotate-ca',
    'list-usage',
    'labels',
    'undelete',
    'placement',
    'run',
    'rename',
    'create-tags',
    'create-from-backup',
    'confirm-owners',
    'create-settings',
    'delete-copy',
    'export',
    'import-archive',
    'standby',
    'keep-copy',
    'move-history',
  ]
  if (isSupported) features.push('upgrade')
  return { features, previousVersion: isSupported ? packages.previousVersion() : '' }
}
