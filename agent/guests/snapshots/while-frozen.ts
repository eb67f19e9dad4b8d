import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { thawGuest } from './thaw.js'

/**
 * A guest that does not freeze within this time continues, and its snapshot has the state that a power loss would
 * leave.
 */
const freezeTimeoutMs = 500

/**
 * Runs work while the guest is frozen. The work runs even if the guest cannot be frozen, and succeeds even if it does
 * not thaw at once.
 */
export async function whileFrozen<T>(
  context: Pick<GuestContext, 'machines' | 'log'>,
  record: GuestRecord,
  work: () => Promise<T>,
): Promise<T> {
  const [driver, machine] = [context.machines.driverOf(record), context.machines.of(record)]
  try {
    await driver
      .freeze(machine, freezeTimeoutMs)
      .catch((err: unknown) => context.log.warn({ err, guest: record.uuid }, 'freeze for a snapshot'))
    return await work()
  } finally {
    await thawGuest(context, record)
  }
}
