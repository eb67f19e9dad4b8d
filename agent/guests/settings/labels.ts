import { checkNote, parseTags } from '../../../shared/label-rules.js'
import type { GuestRecord } from '../record/record.js'
import { refuseRemoved, type RemovalCheck } from '../deletion/plan-deletion.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/** A change of the labels. Undefined fields keep their value. */
export interface LabelsChange {
  readonly tags?: { readonly names: readonly string[] } | undefined
  readonly note?: string | undefined
  readonly deleteProtected?: boolean | undefined
}

/**
 * Sets the guest's tags, its note and its protection against deletion. A broken guest accepts the change too, because
 * it can only be deleted after its protection was lifted.
 * @throws {BerthError} `invalid_field`, and those of `changeGuest`
 */
export function setLabels(
  context: ChangeContext & RemovalCheck,
  target: Target,
  wanted: LabelsChange,
): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    allowsBroken: true,
    write: ({ uuid, labels: old }) => {
      refuseRemoved(context, uuid)
      const { tags, note = old.note, deleteProtected = old.deleteProtected } = wanted
      store.update(uuid, {
        labels: { tags: tags ? parseTags(tags.names) : old.tags, note: checkNote(note), deleteProtected },
      })
      return () => store.update(uuid, { labels: old })
    },
  })
}
