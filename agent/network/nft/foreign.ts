import { readFile } from 'node:fs/promises'
import type { AgentConfig } from '../../config.js'
import type { Nft } from '../../host/net/nft.js'
import { findSysctl } from '../../host/kernel/sysctl.js'
import {
  describeBridgeFilter,
  describeDropping,
  describeLegacy,
  dropsGuests,
  parseForwardChains,
} from './plan-warnings.js'
import { guardTable } from './ruleset/plan-guard-tables.js'

/** Returns warnings about other programs' rules and settings that harm guests. Changes none of them. */
export async function readWarnings(
  nft: Nft,
  { table, bridge }: Pick<AgentConfig['network'], 'table' | 'bridge'>,
): Promise<string[]> {
  const warnings: string[] = []
  for (const chain of parseForwardChains(await nft.readChains(), [table, guardTable(table)])) {
    const text = (await nft.readTable(chain.family, chain.table)) ?? ''
    if (dropsGuests(text, chain.chain, bridge)) warnings.push(describeDropping(chain, bridge))
  }
  warnings.push(...describeLegacy('iptables', await readNames('ip'), bridge))
  warnings.push(...describeLegacy('ip6tables', await readNames('ip6'), bridge))
  if (findSysctl('net/bridge/bridge-nf-call-iptables') === 1)
    warnings.push(describeBridgeFilter('net.bridge.bridge-nf-call-iptables'))
  return warnings
}

/** Reads the names of iptables' legacy tables. Returns '' if the kernel has no such tables. */
function readNames(family: 'ip' | 'ip6'): Promise<string> {
  return readFile(`/proc/self/net/${family}_tables_names`, 'utf8').catch(() => '')
}
