import { BerthError } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { limits } from '../../../shared/guest-rules.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { changeGuest, type Target } from './change.js'

/** A change of the snapshot quota. Undefined fields keep their value. */
export interface QuotaChange {
  readonly limit?: number | undefined
  readonly spaceBytes?: number | undefined
}

interface Parts {
  readonly context: GuestContext
  readonly capacity: Pick<HostCapacity, 'readDisk'>
}

/**
 * Sets the maximum number of the guest's snapshots, and the maximum space that all of them together retain. Existing
 * snapshots beyond the limits stay. No new snapshot is taken until there is room.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`, and the errors of `changeGuest`
 */
export async function setSnapshotQuota(
  { context, capacity }: Parts,
  target: Target,
  { limit, spaceBytes }: QuotaChange,
): Promise<GuestRecord> {
  const { store } = context
  const poolBytes = spaceBytes === undefined ? 0 : (await capacity.readDisk()).totalBytes
  return changeGuest(context, target, {
    write: ({ uuid, snapshotLimit: oldLimit, snapshotSpace: oldSpace }) => {
      const snapshotLimit = limit === undefined ? oldLimit : checkInteger('snapshot_limit', limit, limits.snapshots)
      const limitBytes = spaceBytes === undefined ? oldSpace.limitBytes : checkSpace(spaceBytes, poolBytes)
      store.update(uuid, { snapshotLimit, snapshotSpace: { ...oldSpace, limitBytes } })
      return () => store.update(uuid, { snapshotLimit: oldLimit, snapshotSpace: oldSpace })
    },
  })
}

/** Checks the limit of the snapshots' space. @throws {BerthError} `invalid_field`, `resource_exhausted` */
function checkSpace(spaceBytes: number, poolBytes: number): number {
  checkInteger('space_limit_bytes', spaceBytes, limits.snapshotSpaceBytes)
  if (spaceBytes > poolBytes)
    throw new BerthError(
      'exhausted',
      'resource_exhausted',
      `space_limit_bytes: must be at most ${poolBytes}, the size of the storage pool`,
      { field: 'space_limit_bytes' },
    )
  return spaceBytes
}
