import { planAllowance } from './plan-snapshot-space.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestMachines } from '../machines.js'

/**
 * Returns the limit in bytes for all data of the guest's volumes and snapshots. It is the sum of the disk size, space
 * for snapshots, data of a backup that is being fetched, and data that a restored volume no longer shares. Returns 0
 * (no limit) for a virtual machine, because its disk file has a fixed size.
 */
export function volumeLimitOf(machines: GuestMachines, record: GuestRecord): number {
  const limitBytes = machines.driverOf(record).volumeLimitBytes(machines.of(record))
  if (limitBytes === 0) return 0
  return limitBytes + record.extraBytes + planAllowance(record) + record.fetchedBytes
}
