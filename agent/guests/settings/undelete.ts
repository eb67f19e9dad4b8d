import { planUndelete } from '../deletion/plan-deletion.js'
import type { GuestRecord } from '../record/record.js'
import { refuseRemoved, type RemovalCheck } from '../deletion/plan-deletion.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/**
 * Undoes the deletion of a guest. If the guest ran before, the reconciler starts it. Does nothing for a guest that is
 * not marked as deleted.
 * @throws {BerthError} `invalid_state` if the guest is being removed, and the errors of `changeGuest`
 */
export function undelete(context: ChangeContext & RemovalCheck, target: Target): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    allowsDeleted: true,
    write: (record) => {
      const { uuid, deletion, suspension, wanted } = record
      refuseRemoved(context, uuid)
      store.update(uuid, planUndelete(record))
      return () => store.update(uuid, { deletion, suspension, wanted })
    },
  })
}
