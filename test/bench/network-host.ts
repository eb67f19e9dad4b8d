import { join } from 'node:path'
import type { AgentConfig } from '../../agent/config.js'
import type { GuestContext } from '../../agent/guests/context.js'
import { networkOf } from '../../agent/guests/resources/network.js'
import { unlimitedTraffic, type PortMapping } from '../../agent/guests/record/record.js'
import { setFirewall } from '../../agent/guests/settings/firewall.js'
import { PortMappings } from '../../agent/guests/settings/port-mappings.js'
import { GuestStore } from '../../agent/guests/record/guest-store.js'
import { HostPorts } from '../../agent/guests/resources/host-ports.js'
import { HostAddressBook } from '../../agent/network/address-book.js'
import { kernelFacts } from '../../agent/network/addresses/host-facts.js'
import type { Network, WantedNetwork } from '../../agent/network/contract.js'
import type { Firewall } from '../../shared/firewall-rules.js'
import { NetlinkWatch } from '../../agent/host/net/netlink-watch.js'
import { HostNetwork } from '../../agent/network/host-network.js'
import { createRules } from '../../agent/network/nft/rules.js'
import { createShaper } from '../../agent/network/shaping/shaping.js'
import { formatIpv4, macOf, parseSubnet } from '../../agent/network/subnet.js'
import { Changes } from '../../agent/state/changes.js'
import { openDatabase } from '../../agent/state/database.js'
import { checkFirewall } from '../../shared/firewall-rules.js'
import { createLogger } from '../../shared/logging.js'
import { firewallOf, mappingAt, type Scenario } from './network-plan.js'

const limits = {
  vcpuMilli: 1000,
  ramMb: 256,
  diskGb: 1,
  networkDownMbps: 0,
  networkUpMbps: 0,
  ioReadMbps: 0,
  ioWriteMbps: 0,
}

/**
 * The parts of an agent that change settings, with the agent's journal and network, in the network namespace of this
 * process. Its guests exist only in the journal and in nft.
 */
export class SimulatedHost {
  readonly #context: GuestContext
  readonly #mappings: PortMappings
  readonly network: Network
  /** Detects changes by other programs, as in an agent. */
  readonly #watch: NetlinkWatch

  /** @param directory directory of the journal, on a disk because the agent answers only after the journal is synced */
  constructor(
    private readonly config: AgentConfig['network'],
    directory: string,
  ) {
    this.#watch = new NetlinkWatch(config)
    const changes = new Changes(openDatabase(join(directory, 'journal.db')))
    const log = createLogger({ name: 'bench', level: 'error' })
    this.network = new HostNetwork(
      createRules(config, { watch: this.#watch }),
      new HostAddressBook({ db: changes.db, config, log, assignInside: () => Promise.resolve() }),
      createShaper(config.interface_prefix, this.#watch),
    )
    const store = new GuestStore(changes)
    // Mappings and firewalls need no other parts of the agent's context.
    this.#context = {
      config: { network: config } as AgentConfig,
      store,
      network: this.network,
      ports: new HostPorts({ store, config, facts: kernelFacts }),
      log,
      now: Date.now,
    } as GuestContext
    this.#mappings = new PortMappings(this.#context)
  }

  /** Adds the guests of a scenario to the agent's journal and to the host. */
  async fill(scenario: Scenario): Promise<void> {
    const { store } = this.#context
    const portsOf = spreadPorts(scenario, this.config.nat_ports.start)
    store.changes.transaction(() => {
      for (let index = 0; index < scenario.guests; index++)
        store.insert(guestAt(this.config, { index, rules: scenario.rules, ports: portsOf(index) }))
    })
    const wanted = store.list().map((record) => networkOf(record, this.#context.config))
    await this.network.ensure(wanted, ['rules'])
  }

  guest(index: number): WantedNetwork {
    return networkOf(this.#context.store.get(uuidOf(index)), this.#context.config)
  }

  /** Adds a mapping to the measured guest. @returns a function that deletes it */
  async addMapping(protocol: 'tcp' | 'udp', hostPort: number): Promise<() => Promise<unknown>> {
    const target = { uuid: uuidOf(0), ifRevision: 0 }
    const { portMappings } = await this.#mappings.add(target, mappingAt(protocol, hostPort))
    return () => this.#mappings.remove(target, portMappings.length - 1)
  }

  async replaceFirewall(version: number): Promise<void> {
    await setFirewall(this.#context, { uuid: uuidOf(0), ifRevision: 0 }, firewallOf(50, version))
  }

  async close(): Promise<void> {
    this.#watch.close()
    await this.network.close()
    this.#context.store.changes.db.close()
  }
}

/** Returns a firewall in the form in which the agent's journal stores it. */
export function checkedFirewall(rules: number, version: number): Firewall {
  return checkFirewall(firewallOf(rules, version))
}

const uuidOf = (index: number): string => `guest-${index}`

/** Distributes the mapped ports. Guest 0, which is measured, gets `ownMappings` ports; other guests get the rest. */
function spreadPorts({ guests, mappings, ownMappings }: Scenario, first: number) {
  const each = Math.ceil((mappings - ownMappings) / (guests - 1))
  return (index: number): number[] => {
    const begin = index === 0 ? 0 : Math.min(mappings, ownMappings + (index - 1) * each)
    const end = index === 0 ? ownMappings : Math.min(mappings, begin + each)
    return Array.from({ length: end - begin }, (_, i) => first + begin + i)
  }
}

interface SimulatedGuest {
  readonly index: number
  readonly rules: number
  readonly ports: readonly number[]
}

function guestAt(
  config: AgentConfig['network'],
  { index, rules, ports }: SimulatedGuest,
): Parameters<GuestStore['insert']>[0] {
  const ipv4 = formatIpv4(parseSubnet(config.subnet).first + index)
  return {
    uuid: uuidOf(index),
    id: index + 1,
    name: uuidOf(index),
    userIdSlot: index,
    status: 'running',
    wanted: 'running',
    createdAtMs: 0,
    expiresAtMs: 0,
    spec: { virtualization: 'lxc', templateId: 'debian-12', limits },
    ipv4,
    mac: macOf(ipv4),
    login: null,
    hasPassword: false,
    publicIpv4s: [],
    ipv6Addresses: [],
    traffic: unlimitedTraffic,
    portMappings: ports.map(storedMapping),
    firewall: checkedFirewall(rules, index),
    policy: { expired: false, overQuota: false },
  }
}

function storedMapping(hostPort: number): PortMapping {
  return {
    protocol: 'tcp',
    hostIp: '',
    hostPort,
    hostPortEnd: hostPort,
    containerPort: 22,
    containerPortEnd: 22,
    description: '',
  }
}
