import { invalidField } from '../../shared/errors.js'
import { limits as ranges } from '../../shared/guest-rules.js'
import type { GuestLimits } from './record.js'

/** @throws {BerthError} `invalid_field` unless an integer within the range */
export function parseInteger(
  field: string,
  value: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  if (!Number.isSafeInteger(value) || value < min || value > max)
    throw invalidField(field, `${field}: must be an integer from ${min} to ${max}`)
  return value
}

/** @throws {BerthError} `invalid_field` naming the field in the API's spelling */
export function checkLimits(limits: Readonly<GuestLimits>): GuestLimits {
  return {
    vcpuMilli: parseInteger('vcpu', limits.vcpuMilli, ranges.vcpuMilli),
    ramMb: parseInteger('ram_mb', limits.ramMb, ranges.ramMb),
    diskGb: parseInteger('disk_gb', limits.diskGb, ranges.diskGb),
    networkDownMbps: parseInteger('network_down_mbps', limits.networkDownMbps, ranges.networkMbps),
    networkUpMbps: parseInteger('network_up_mbps', limits.networkUpMbps, ranges.networkMbps),
    ioReadMbps: parseInteger('io_read_mbps', limits.ioReadMbps, ranges.ioMbps),
    ioWriteMbps: parseInteger('io_write_mbps', limits.ioWriteMbps, ranges.ioMbps),
  }
}
