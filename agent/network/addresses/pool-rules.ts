import type { AgentConfig } from '../../config.js'
import { parseSubnet } from '../subnet.js'
import { readUplinks, type HostFacts } from './host-facts.js'
import { parseSubnet6 } from './ipv6.js'
import { readEdges } from './plan-scan.js'
import type { PoolAddress, PoolRules } from './pool.js'

type Config = Pick<AgentConfig, 'network' | 'listen'>

/** Reads from the host the facts that the check of pools needs. @param pool the current IPv4 pool */
export function readPoolRules(facts: HostFacts, config: Config, pool: readonly PoolAddress[]): PoolRules {
  const { network } = config
  const { ipv4, ipv6 } = readUplinks(facts, network.uplinks)
  return {
    interfaces: readInterfaces(facts, network),
    defaultInterfaces: {
      ipv4: (ipv4 ?? ipv6)?.interface ?? '',
      ipv6: (ipv6 ?? ipv4)?.interface ?? '',
    },
    ownAddresses: readOwnAddresses(facts, config, pool),
    gateway: facts.readDefaultRoutes().ipv4?.gateway ?? '',
    edges: readEdges(facts.listIpv4()),
    subnet: parseSubnet(network.subnet),
    subnet6: parseSubnet6(network.subnet6),
  }
}

/** Reads the names of all interfaces except the loopback, the bridge and guests' interfaces. */
function readInterfaces(facts: HostFacts, { bridge, interface_prefix: prefix }: AgentConfig['network']): Set<string> {
  const isGuest = new RegExp(`^${prefix}\\d+$`)
  const isUsable = (name: string): boolean =>
    /^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/.test(name) && !['lo', bridge].includes(name) && !isGuest.test(name)
  return new Set(facts.listInterfaces().filter(isUsable))
}

/**
 * Reads the host's own addresses: the first address of each interface and those that the agent listens on. Addresses in
 * the pool do not count as the host's own.
 */
function readOwnAddresses(facts: HostFacts, { listen }: Config, pool: readonly PoolAddress[]): Set<string> {
  const pooled = new Set(pool.map(({ address }) => address))
  const first = new Map<string, string>()
  for (const { address, interface: device } of facts.listIpv4())
    if (!pooled.has(address) && !first.has(device)) first.set(device, address)
  return new Set([...first.values(), listen.replace(/:\d+$/, '')])
}
