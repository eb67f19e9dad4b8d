import { BerthError } from '../../shared/errors.js'
import type { GuestLimits } from './record.js'

export interface ProcessorsAndMemory {
  readonly cpuCores: number
  readonly ramTotalMb: number
}

/** One guest may have all of the host, and no more. @throws {BerthError} `resource_exhausted` */
export function checkCapacity(
  { vcpuMilli, ramMb }: Pick<GuestLimits, 'vcpuMilli' | 'ramMb'>,
  { cpuCores, ramTotalMb }: ProcessorsAndMemory,
): void {
  const tooMany = vcpuMilli > cpuCores * 1000
  if (!tooMany && ramMb <= ramTotalMb) return
  throw new BerthError(
    'exhausted',
    'resource_exhausted',
    `the host has ${cpuCores} processors and ${ramTotalMb} MB of memory`,
    { field: tooMany ? 'vcpu' : 'ram_mb' },
  )
}
