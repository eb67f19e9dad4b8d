import { BerthError } from '../../../shared/errors.js'
import type { PoolCapacity } from '../../storage/pool.js'
import type { GuestLimits } from '../record/record.js'

export interface ProcessorsAndMemory {
  readonly cpuCores: number
  readonly ramTotalMb: number
}

export interface HostCapacity extends ProcessorsAndMemory {
  /** Reads the pool's capacity without starting a process. */
  readonly readDisk: () => Promise<PoolCapacity>
}

type RequestedLimits = Pick<GuestLimits, 'vcpuMilli' | 'ramMb'>

/** Checks that a guest does not exceed the host's resources. @throws {BerthError} `resource_exhausted` */
export function checkCapacity(
  { vcpuMilli, ramMb }: RequestedLimits,
  { cpuCores, ramTotalMb }: ProcessorsAndMemory,
): void {
  const tooMany = vcpuMilli > cpuCores * 1000
  if (!tooMany && ramMb <= ramTotalMb) return
  throw new BerthError(
    'exhausted',
    'resource_exhausted',
    `the container is larger than the host, which has ${cpuCores} processors and ${ramTotalMb} MB of memory`,
    { field: tooMany ? 'vcpu' : 'ram_mb' },
  )
}

/**
 * Checks only the limits that change, because the host may have become too small for the unchanged ones.
 * @throws {BerthError} `resource_exhausted`
 */
export function checkCapacityChange(
  before: RequestedLimits,
  wanted: RequestedLimits,
  capacity: ProcessorsAndMemory,
): void {
  const changed = (field: keyof RequestedLimits): number => (wanted[field] === before[field] ? 0 : wanted[field])
  checkCapacity({ vcpuMilli: changed('vcpuMilli'), ramMb: changed('ramMb') }, capacity)
}
