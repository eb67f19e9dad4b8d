import { hostname, release } from 'node:os'
import type { DriverCapabilities, HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { DriverDescription } from '../drivers/contract.js'
import type { DriverKind, DriversDescription } from '../drivers/drivers.js'
import { readBootId } from '../host/proc.js'

export interface DescriptionParts extends DriversDescription {
  readonly version: string
  readonly timeZone: string
  readonly cpuCores: number
  readonly ramTotalMb: number
  readonly poolTotalBytes: number
  readonly natPortsTotal: number
  readonly ipv4Total: number
}

const gib = 1024 ** 3

/** What stays the same while the agent runs. The host's id may not: it can join anew. */
export type FixedDescription = Omit<HostDescription, 'hostId'>

/** What the host is and can do. */
export function describeHost(parts: DescriptionParts): FixedDescription {
  return {
    version: parts.version,
    hostname: hostname(),
    kernel: release(),
    bootId: readBootId(),
    startedAtMs: Date.now(),
    timeZone: parts.timeZone || Intl.DateTimeFormat().resolvedOptions().timeZone,
    capabilities: {
      lxc: parts.drivers.get('lxc')?.available ?? false,
      kvm: parts.drivers.get('kvm')?.available ?? false,
      kvmAcceleration: parts.drivers.get('kvm')?.acceleration ?? '',
      storage: 'btrfs',
      cgroupVersion: parts.cgroupVersion,
      lxcfs: parts.lxcfs,
      drivers: [...parts.drivers].map(describeDriver),
    },
    capacity: {
      cpuCores: parts.cpuCores,
      ramTotalMb: parts.ramTotalMb,
      diskTotalGb: Math.floor(parts.poolTotalBytes / gib),
      natPortsTotal: parts.natPortsTotal,
      ipv4Total: parts.ipv4Total,
    },
  }
}

function describeDriver([kind, { available, reason = '', capabilities }]: [
  DriverKind,
  DriverDescription,
]): DriverCapabilities {
  return {
    ...{ kind, available, reason },
    consoles: [...capabilities.consoles],
    liveResize: [...capabilities.liveResize],
    setPassword: [...capabilities.setPassword],
    freeze: capabilities.freeze,
    snapshotRunning: capabilities.snapshotRunning,
  }
}
