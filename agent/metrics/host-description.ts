import { hostname, release } from 'node:os'
import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { DriversDescription } from '../drivers/drivers.js'
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
      drivers: [...parts.drivers].map(([kind, driver]) => ({
        ...{ kind, available: driver.available, reason: driver.reason ?? '' },
        ...driver.capabilities,
        ...{
          consoles: [...driver.capabilities.consoles],
          liveResize: [...driver.capabilities.liveResize],
          setPassword: [...driver.capabilities.setPassword],
        },
      })),
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
