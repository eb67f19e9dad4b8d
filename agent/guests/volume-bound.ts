import type { Driver } from '../drivers/contract.js'
import { driverOf, type GuestContext } from './context.js'
import { planAllowance } from './plan-snapshot-space.js'
import type { GuestRecord } from './record.js'

/**
 * Limit in bytes of all that the guest's volumes and snapshots wrote, at any time: the size that it bought, raised by what
 * snapshots retain and by what is fetched beside its volume. 0: its disk has a size of its own.
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
  return limitBytes === 0 ? 0 : limitBytes + planAllowance(record) + record.fetchedBytes
}
