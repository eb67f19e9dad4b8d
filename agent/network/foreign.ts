import type { AgentConfig } from '../config.js'
import type { Nft } from '../host/nft.js'
import { findSysctl } from '../host/sysctl.js'
import { describeBridgeFilter, describeDropping, letsThrough, parseDroppingChains } from './plan-warnings.js'

/** What other programs' rules and settings do to guests; they are left as they are. */
export async function readWarnings(
  nft: Nft,
  { table, bridge }: Pick<AgentConfig['network'], 'table' | 'bridge'>,
): Promise<string[]> {
  const warnings: string[] = []
  for (const chain of parseDroppingChains(await nft.readChains(), table)) {
    const text = (await nft.readTable(chain.family, chain.table)) ?? ''
    if (!letsThrough(text, bridge)) warnings.push(describeDropping(chain, bridge))
  }
  if (findSysctl('net/bridge/bridge-nf-call-iptables') === 1)
    warnings.push(describeBridgeFilter('net.bridge.bridge-nf-call-iptables'))
  return warnings
}
