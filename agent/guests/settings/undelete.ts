import { planUndelete } from '../deletion/plan-deletion.js'
import type { GuestRecord } from '../record/record.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/**
 * Undoes the deletion of a guest. If the guest ran before, the reconciler starts it. Changes nothing for other guests.
 * @throws {BerthError} those of `changeGuest`
 */
export function undelete(context: ChangeContext, target: Target): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    allowsDeleted: true,
    write: (record) => {
      const { uuid, deletion, suspension, wanted } = record
      store.update(uuid, planUndelete(record))
      return () => store.update(uuid, { deletion, suspension, wanted })
    },
  })
}
