import type { GuestRecord, SnapshotRecord } from '../record.js'

export interface Rotation {
  /** There is a place for one more, where those are dropped. */
  readonly hasRoom: boolean
  /** Ids, the oldest first. */
  readonly dropped: readonly string[]
}

type Kept = Pick<GuestRecord, 'snapshots' | 'snapshotLimit'> & {
  readonly snapshotSchedule: Pick<GuestRecord['snapshotSchedule'], 'retention'>
}

/**
 * Which snapshots make place for one more by the schedule: the oldest that it took, as far as the guest's quota or the
 * schedule's retention is exceeded. Never one made by hand; none at all where those alone fill the quota.
 */
export function planRotation({ snapshots, snapshotLimit, snapshotSchedule }: Kept): Rotation {
  const staying = snapshots.filter(({ state }) => state !== 'deleting')
  const droppable = staying.filter(isDroppable)
  const overQuota = staying.length + 1 - snapshotLimit
  if (overQuota > droppable.length) return { hasRoom: false, dropped: [] }
  const { retention } = snapshotSchedule
  const scheduled = staying.filter((snapshot) => snapshot.scheduled).length + 1
  const overRetention = retention === 0 ? 0 : scheduled - retention
  const excess = Math.max(0, overQuota, overRetention)
  return { hasRoom: true, dropped: droppable.slice(0, excess).map(({ id }) => id) }
}

function isDroppable({ scheduled, state }: SnapshotRecord): boolean {
  return scheduled && state === 'ready'
}
