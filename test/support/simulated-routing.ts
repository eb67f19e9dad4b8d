import { AgentConfigSchema } from '../../agent/config.js'
import {
  allocateIpv6s,
  allocatePublicIpv4s,
  type AddressRequest,
} from '../../agent/network/addresses/allocation.js'
import type { HostFacts } from '../../agent/network/addresses/host-facts.js'
import { formatIpv6, parseIpv6, parseSubnet6 } from '../../agent/network/addresses/ipv6.js'
import { planIpv6, type Ipv6Plan } from '../../agent/network/addresses/plan-ipv6.js'
import type { Ipv6Prefix } from '../../agent/network/addresses/pool.js'
import { Routing } from '../../agent/network/addresses/routing.js'
import { readPrefixes } from '../../agent/network/addresses/store.js'
import { GetRoutingResponse } from '../../proto/gen/berth/agent/v1/network.js'
import { validateConfig } from '../../shared/config.js'
import type { RoutingCalls } from '../../gateway/fleet/contract.js'
import { silentLog } from './redis.js'
import type { SimulatedJournal } from './simulated-journal.js'

export const simulatedConfig = validateConfig(AgentConfigSchema, {}, 'simulated')

/** Addresses of every simulated host: the first of each family is the one it is reached at. */
export const simulatedAddresses = { ipv4: ['192.0.2.10', '192.0.2.11'], ipv6: ['2001:db8::a'] } as const

const facts: HostFacts = {
  listInterfaces: () => ['lo', 'eth0', 'eth1', 'enp129s0f0np0.7', simulatedConfig.network.bridge],
  listIpv4: () =>
    simulatedAddresses.ipv4.map((address) => ({ interface: 'eth0', address, prefixLength: 24 })),
  readDefaultRoutes: () => ({ ipv4: { interface: 'eth0', gateway: '192.0.2.1' }, ipv6: undefined }),
  // Nobody answers.
  isVirtual: () => false,
  probe: async (_device, addresses) => new Map(addresses.map((address) => [address, ''])),
}

/** One address that no prefix is made of. */
const ipv6Address = {
  ...{ interface: 'eth0', address: '2001:0db8:0000:0000:0000:0000:0000:000a', prefixLength: 128 },
  ...{ scope: 'global' as const, temporary: false, deprecated: false, tentative: false },
}

/** A host's pools: the agent's own code over a journal in memory and a host that is made up. */
export class SimulatedRouting {
  readonly #routing: Routing
  /** For agents that misbehave: what becomes of the answer to getRouting. */
  twist = (answer: GetRoutingResponse): GetRoutingResponse => answer

  constructor(private readonly journal: SimulatedJournal) {
    this.#routing = new Routing({
      ...{ changes: journal.changes, config: simulatedConfig, log: silentLog, facts },
      book: { readIpv6: (configured) => this.#readIpv6(configured) },
      applyAddresses: () => Promise.resolve(),
    })
  }

  readonly calls: RoutingCalls = {
    getRouting: async () => {
      this.journal.sync()
      return this.twist(GetRoutingResponse.fromPartial(this.#routing.getRouting()))
    },
    setRouting: async ({ ipv4Pool, ipv6Prefixes, nat4Ports }) => {
      this.journal.sync()
      const change = { ipv4Pool: ipv4Pool?.items, ipv6Prefixes: ipv6Prefixes?.items, nat4Ports }
      return { routing: GetRoutingResponse.fromPartial(await this.#routing.setRouting(change)) }
    },
    scanIpv4: async (request) => {
      this.journal.sync()
      return { items: await this.#routing.scanIpv4(request) }
    },
    getIpv6Status: () => this.#routing.getIpv6Status(),
  }

  /** @throws {BerthError} as an agent */
  allocateIpv4(wanted: AddressRequest): string[] {
    this.journal.sync()
    return allocatePublicIpv4s(this.journal.changes.db, wanted)
  }

  /** @throws {BerthError} as an agent */
  allocateIpv6(wanted: AddressRequest): string[] {
    this.journal.sync()
    const plan = this.#readIpv6()
    const named = plan.sources.flatMap(({ prefix }) => [prefix.address, prefix.gateway])
    const reserved = new Set(
      [ipv6Address.address, ...named].flatMap((text) => {
        const value = parseIpv6(text)
        return value === undefined ? [] : [formatIpv6(value)]
      }),
    )
    return allocateIpv6s(this.journal.changes.db, { ...plan, ...wanted, reserved })
  }

  #readIpv6(configured: readonly Ipv6Prefix[] = readPrefixes(this.journal.changes.db)): Ipv6Plan {
    const { subnet6, bridge } = simulatedConfig.network
    return planIpv6({
      ...{ configured, addresses: [ipv6Address], interfaces: configured.map((one) => one.interface) },
      ...{ held: [], isUsed: () => false, defaultRoute: undefined, uplink: undefined },
      ...{ subnet6: parseSubnet6(subnet6), bridge },
    })
  }
}
