import type { StandbyChange } from '../../../proto/gen/berth/agent/v1/network.js'
import type { GuestRecord } from '../record/record.js'
import { planStandby } from '../standby/plan-standby.js'
import type { StandbySender } from '../standby/standby-sender.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/**
 * Sets or removes the guest's warm standby. The snapshots of a standby that was replaced or removed are deleted. If the
 * agent is killed before, its next start deletes them.
 * @throws {BerthError} `invalid_field`, `unsupported`, and the errors of `changeGuest`
 */
export async function setStandby(
  context: ChangeContext & { readonly standbys: Pick<StandbySender, 'discard'> },
  target: Target,
  wanted: StandbyChange,
): Promise<GuestRecord> {
  const { store, log, standbys } = context
  const record = await changeGuest(context, target, {
    write: (before) => {
      store.update(before.uuid, { standby: planStandby(before, wanted) })
      return () => store.update(before.uuid, { standby: before.standby })
    },
  })
  // Outside the guest's mutex: a running increment needs the mutex before it can end.
  await standbys
    .discard(target.uuid)
    .catch((err: unknown) => log.warn({ err, guest: target.uuid }, 'could not delete snapshots of a former standby'))
  return store.find(target.uuid) ?? record
}
