import { checkGuestName } from '../../../shared/guest-rules.js'
import { checkNote, parseTags } from '../../../shared/label-rules.js'
import { parsePlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { refuseRemoved, type RemovalCheck } from '../deletion/plan-deletion.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/** A change of the labels. Undefined fields keep their value. */
export interface LabelsChange {
  readonly tags?: { readonly names: readonly string[] } | undefined
  readonly note?: string | undefined
  readonly deleteProtected?: boolean | undefined
  readonly placement?: PlacementRules | undefined
  readonly name?: string | undefined
}

/**
 * Sets the guest's name, its tags, its note, its protection against deletion and its placement rules. A broken guest
 * accepts the change too, because it can only be deleted after its protection was lifted.
 * @throws {BerthError} `invalid_field`, `name_conflict`, and the errors of `changeGuest`
 */
export function setLabels(
  context: ChangeContext & RemovalCheck & Pick<GuestContext, 'machines'>,
  target: Target,
  wanted: LabelsChange,
): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    allowsBroken: true,
    write: ({ uuid, name: oldName, labels: old, placement: oldPlacement }) => {
      refuseRemoved(context, uuid)
      const { tags, note = old.note, deleteProtected = old.deleteProtected, name = oldName } = wanted
      checkGuestName(name)
      store.refuseTakenName(uuid, name)
      store.update(uuid, {
        name,
        placement: wanted.placement ? parsePlacement(wanted.placement) : oldPlacement,
        labels: { tags: tags ? parseTags(tags.names) : old.tags, note: checkNote(note), deleteProtected },
      })
      return () => store.update(uuid, { name: oldName, labels: old, placement: oldPlacement })
    },
    ...(wanted.name !== undefined && { apply: (record) => setHostname(context, record) }),
  })
}

/**
 * Writes the host name that the guest gets at its next start. The write can fail, because the guest controls its files.
 * A failure is only logged. The name in Berth changes nevertheless.
 */
async function setHostname(
  { machines, log }: Pick<GuestContext, 'machines' | 'log'>,
  record: GuestRecord,
): Promise<void> {
  try {
    await machines.driverOf(record).setHostname?.(machines.of(record))
  } catch (err) {
    log.warn({ err, guest: record.uuid }, 'the host name could not be written to the files of the guest')
  }
}
