import { checkInteger } from '../../../shared/field-checks.js'
import { limits as ranges } from '../../../shared/guest-rules.js'
import type { GuestLimits } from '../record/record.js'

/** Checks limits. @throws {BerthError} `invalid_field` with the field's name in the API */
export function checkLimits(limits: Readonly<GuestLimits>): GuestLimits {
  return {
    vcpuMilli: checkInteger('vcpu', limits.vcpuMilli, ranges.vcpuMilli),
    ramMb: checkInteger('ram_mb', limits.ramMb, ranges.ramMb),
    diskGb: checkInteger('disk_gb', limits.diskGb, ranges.diskGb),
    networkDownMbps: checkInteger('network_down_mbps', limits.networkDownMbps, ranges.networkMbps),
    networkUpMbps: checkInteger('network_up_mbps', limits.networkUpMbps, ranges.networkMbps),
    ioReadMbps: checkInteger('io_read_mbps', limits.ioReadMbps, ranges.ioMbps),
    ioWriteMbps: checkInteger('io_write_mbps', limits.ioWriteMbps, ranges.ioMbps),
    ...boundedBy('ioReadIops', checkInteger('io_read_iops', limits.ioReadIops ?? 0, ranges.iops)),
    ...boundedBy('ioWriteIops', checkInteger('io_write_iops', limits.ioWriteIops ?? 0, ranges.iops)),
  }
}

/** Omits an unlimited rate (0). Guests that were created before this limit existed also lack the field. */
function boundedBy(name: 'ioReadIops' | 'ioWriteIops', value: number): Partial<GuestLimits> {
  return value > 0 ? { [name]: value } : {}
}
