import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { AgentFeature } from '../../shared/agent-features.js'
import type { AgentPackages } from './contract.js'

/** The agent's features, and the part of the host's description that depends on the agent's packages. */
export function describePackages(packages: AgentPackages): Pick<HostDescription, 'features' | 'previousVersion'> {
  const isSupported = packages.isSupported()
  const features: AgentFeature[] = isSupported ? ['move', 'fence', 'upgrade'] : ['move', 'fence']
  return { features, previousVersion: isSupported ? packages.previousVersion() : '' }
}
