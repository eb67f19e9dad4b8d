import { driverOf, type GuestContext } from './context.js'

/**
 * Lets guests go on that an agent froze and was killed before it thawed them. At a start, before operations do; a
 * guest that its driver cannot thaw is logged, and its operations try again.
 */
export async function thawGuests(context: GuestContext): Promise<void> {
  const live = context.store.list().filter(({ status }) => status !== 'stopped' && status !== 'creating')
  for (const record of live) {
    try {
      await driverOf(context, record).thaw(context.machineOf(record))
    } catch (err) {
      context.log.warn({ err, guest: record.uuid }, 'thaw a guest')
    }
  }
}
