import type { AgentConfig } from '../config.js'
import {
  describeCapabilities,
  describeHost,
  describePorts,
  type FixedDescription,
} from '../metrics/host-description.js'
import { readNatPorts } from '../network/addresses/address-tables.js'
import { parseSharedPools } from '../network/addresses/shared-pools.js'
import type { Domain } from './domain.js'
import type { Host } from './host.js'

/** Describes the host's present state. Drivers' capabilities and the range of ports can change at run time. */
export class HostDescriber {
  private constructor(
    private readonly host: Host,
    private readonly domain: Domain,
    private described: FixedDescription,
  ) {}

  static async open(
    host: Host,
    domain: Domain,
    { config, version }: { readonly config: AgentConfig; readonly version: string },
  ): Promise<HostDescriber> {
    const { start, end } = config.network.nat_ports
    const described = describeHost({
      version,
      timeZone: config.time_zone,
      ...(await host.drivers.describe()),
      cpuCores: host.cpuCores,
      ramTotalMb: host.ramTotalMb,
      poolTotalBytes: (await host.readCapacity()).totalBytes,
      natPorts: { start, end },
      ipv4Total: host.ipv4Total,
      sharedPools: parseSharedPools(config.network.shared_pools),
    })
    return new HostDescriber(host, domain, described)
  }

  get now(): FixedDescription {
    const { changes, context } = this.domain
    const ports = describePorts(readNatPorts(changes.db, context.config.network.nat_ports))
    const { capacity: size } = this.described
    return { ...this.described, capacity: size && { ...size, ...ports } }
  }

  /** Reads the drivers' capabilities again. Starts no process. */
  async look(): Promise<void> {
    const capabilities = describeCapabilities(await this.host.drivers.describe())
    this.described = { ...this.described, capabilities }
  }
}
