import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { thawGuest } from './thaw.js'

/**
 * Time in ms within which a guest must freeze. A guest that does not freeze in time keeps running, and its snapshot has
 * the state that a power loss would leave.
 */
const freezeTimeoutMs = 500

/**
 * Runs `work` while the guest is frozen. If the guest cannot be frozen, `work` runs nevertheless. Returns the result of
 * `work` even if the guest does not thaw immediately.
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
      .catch((err: unknown) =>
        context.log.warn(
          { err, guest: record.uuid },
          'the guest could not be frozen; the snapshot is taken while it runs',
        ),
      )
    return await work()
  } finally {
    await thawGuest(context, record)
  }
}
