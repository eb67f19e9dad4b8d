import { checkInteger } from '../../../shared/field-checks.js'
import { limits } from '../../../shared/guest-rules.js'
import type { GuestRecord } from '../record.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

/**
 * Snapshots that are more than that stay; no other is taken until there are fewer.
 * @throws {BerthError} `invalid_field`, and those of `changeGuest`
 */
export function setSnapshotLimit(
  context: ChangeContext,
  target: Target,
  wanted: number,
): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    write: ({ uuid, snapshotLimit: old }) => {
      const snapshotLimit = checkInteger('snapshot_limit', wanted, limits.snapshots)
      store.update(uuid, { snapshotLimit })
      return () => store.update(uuid, { snapshotLimit: old })
    },
  })
}
