import type { Driver } from '../drivers/contract.js'
import { driverOf, type GuestContext } from './context.js'
import type { GuestRecord } from './record.js'

/** Bytes that the guest's volume is bounded to; 0: its disk has a size of its own. */
export function volumeLimitOf(context: GuestContext, record: GuestRecord): number {
  return boundOf(driverOf(context, record), context, record)
}

/** What is fetched beside the volume counts for its bound, too. */
export function boundOf(
  driver: Driver,
  { machineOf }: Pick<GuestContext, 'machineOf'>,
  record: GuestRecord,
): number {
  const limitBytes = driver.volumeLimitBytes(machineOf(record))
  return limitBytes === 0 ? 0 : limitBytes + record.fetchedBytes
}
