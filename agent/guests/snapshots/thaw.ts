import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'

/** Thaws guests that a killed agent left frozen. Called at the agent's start, before operations begin. */
export async function thawGuests(context: Pick<GuestContext, 'store' | 'machines' | 'log'>): Promise<void> {
  const live = context.store.list().filter(({ status }) => status !== 'stopped' && status !== 'creating')
  for (const record of live) await thawGuest(context, record)
}

/** Thaws a guest. A failure is only logged, because the work during the freeze is done and the driver tries again. */
export async function thawGuest(context: Pick<GuestContext, 'machines' | 'log'>, record: GuestRecord): Promise<void> {
  try {
    await context.machines.driverOf(record).thaw(context.machines.of(record))
  } catch (err) {
    context.log.warn({ err, guest: record.uuid }, 'could not thaw a frozen guest')
  }
}
