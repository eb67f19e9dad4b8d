import { availableParallelism, hostname, release, totalmem } from 'node:os'
import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { DriverDescription } from '../drivers/contract.js'
import { readBootId } from '../host/proc.js'

export interface DescriptionParts {
  readonly version: string
  readonly timeZone: string
  readonly lxc: DriverDescription | undefined
  readonly kvm: DriverDescription | undefined
  readonly cgroupVersion: 1 | 2
  readonly lxcfs: boolean
  readonly poolTotalBytes: number
  readonly natPortsTotal: number
  readonly ipv4Total: number
}

const mib = 1024 * 1024
const gib = 1024 * mib

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
      lxc: parts.lxc?.available ?? false,
      kvm: parts.kvm?.available ?? false,
      kvmAcceleration: parts.kvm?.acceleration ?? '',
      storage: 'btrfs',
      cgroupVersion: parts.cgroupVersion,
      lxcfs: parts.lxcfs,
    },
    capacity: {
      cpuCores: availableParallelism(),
      ramTotalMb: Math.floor(totalmem() / mib),
      diskTotalGb: Math.floor(parts.poolTotalBytes / gib),
      natPortsTotal: parts.natPortsTotal,
      ipv4Total: parts.ipv4Total,
    },
  }
}
