import { hostname, release } from 'node:os'
import type {
  Capacity,
  DriverCapabilities,
  Capabilities,
  HostDescription,
} from '../../proto/gen/berth/agent/v1/host.js'
import type { DriverDescription } from '../drivers/contract.js'
import type { DriverKind, DriversDescription } from '../drivers/drivers.js'
import type { SharedRange } from '../network/addresses/shared-pools.js'
import type { PortRange } from '../network/ports.js'
import { readBootId } from '../host/process/proc.js'

export interface DescriptionParts extends DriversDescription {
  readonly version: string
  readonly timeZone: string
  readonly cpuCores: number
  readonly ramTotalMb: number
  readonly poolTotalBytes: number
  readonly natPorts: PortRange
  readonly ipv4Total: number
  readonly sharedPools: readonly SharedRange[]
}

const gib = 1024 ** 3

/** The host's description without its id, which a new join changes, and without the fields that upgrades change. */
export type FixedDescription = Omit<HostDescription, 'hostId' | 'features' | 'previousVersion'>

export function describeHost(parts: DescriptionParts): FixedDescription {
  return {
    version: parts.version,
    hostname: hostname(),
    kernel: release(),
    bootId: readBootId(),
    startedAtMs: Date.now(),
    timeZone: parts.timeZone || Intl.DateTimeFormat().resolvedOptions().timeZone,
    capabilities: describeCapabilities(parts),
    sharedPools: parts.sharedPools.map(({ name, range }) => ({ name, range })),
    capacity: {
      cpuCores: parts.cpuCores,
      ramTotalMb: parts.ramTotalMb,
      diskTotalGb: Math.floor(parts.poolTotalBytes / gib),
      ...describePorts(parts.natPorts),
      ipv4Total: parts.ipv4Total,
    },
  }
}

/** Describes the range of host ports for mappings. */
export function describePorts({ start, end }: PortRange): Pick<Capacity, 'natPortsStart' | 'natPortsTotal'> {
  return { natPortsStart: start, natPortsTotal: end - start + 1 }
}

export function describeCapabilities({ drivers, cgroupVersion, lxcfs }: DriversDescription): Capabilities {
  return {
    lxc: drivers.get('lxc')?.available ?? false,
    kvm: drivers.get('kvm')?.available ?? false,
    kvmAcceleration: drivers.get('kvm')?.acceleration ?? '',
    storage: 'btrfs',
    cgroupVersion,
    lxcfs,
    drivers: [...drivers].map(describeDriver),
  }
}

function describeDriver([kind, { available, reason = '', capabilities, acceleration, accelerationReason = '' }]: [
  DriverKind,
  DriverDescription,
]): DriverCapabilities {
  return {
    kind,
    available,
    reason,
    acceleration,
    accelerationReason,
    consoles: [...capabilities.consoles],
    liveResize: [...capabilities.liveResize],
    setPassword: [...capabilities.setPassword],
    freeze: capabilities.freeze,
    snapshotRunning: capabilities.snapshotRunning,
  }
}
