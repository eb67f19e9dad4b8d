import { checkNote, parseTags } from '../../../shared/label-rules.js'
import { parsePlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import type { GuestRecord } from '../record/record.js'
import { refuseRemoved, type RemovalCheck } from '../deletion/plan-deletion.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/** A change of the labels. Undefined fields keep their value. */
export interface LabelsChange {
  readonly tags?: { readonly names: readonly string[] } | undefined
  readonly note?: string | undefined
  readonly deleteProtected?: boolean | undefined
  readonly placement?: PlacementRules | undefined
}

/**
 * Sets the guest's tags, its note, its protection against deletion and its placement rules. A broken guest accepts the change too, because
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
    write: ({ uuid, labels: old, placement: oldPlacement }) => {
      refuseRemoved(context, uuid)
      const { tags, note = old.note, deleteProtected = old.deleteProtected } = wanted
      store.update(uuid, {
        placement: wanted.placement ? parsePlacement(wanted.placement) : oldPlacement,
        labels: { tags: tags ? parseTags(tags.names) : old.tags, note: checkNote(note), deleteProtected },
      })
      return () => store.update(uuid, { labels: old, placement: oldPlacement })
    },
  })
}
