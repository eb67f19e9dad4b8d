import { driverOf, type GuestContext } from './context.js'

/**
 * Thaws guests that a killed agent left frozen. Runs at the agent's start, before operations. If a driver cannot thaw
 * one, that is logged, and the guest's operations try again.
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
