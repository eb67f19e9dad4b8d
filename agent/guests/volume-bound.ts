import type { Driver } from '../drivers/contract.js'
import { driverOf, type GuestContext } from './context.js'
import { planAllowance } from './plan-snapshot-space.js'
import type { GuestRecord } from './record.js'

/**
 * Limit in bytes of all that the guest's volumes and snapshots wrote, at any time: the size that it bought, raised by what
 * snapshots retain, by what is fetched beside its volume, and by data that a restored volume no longer shares. 0: its disk has a size of its own.
 */
export function volumeLimitOf(context: GuestContext, record: GuestRecord): number {
  return boundOf(driverOf(context, record), context, record)
}

/** As `volumeLimitOf`, for a known driver. */
export function boundOf(
  driver: Driver,
  { machineOf }: Pick<GuestContext, 'machineOf'>,
  record: GuestRecord,
): number {
  const limitBytes = driver.volumeLimitBytes(machineOf(record))
  if (limitBytes === 0) return 0
  return limitBytes + record.extraBytes + planAllowance(record) + record.fetchedBytes
}
