/** What a guest has of snapshots or backups. */
export interface RetainedCopy {
  readonly id: string
  readonly scheduled: boolean
  readonly state: 'taking' | 'ready' | 'deleting'
}

export interface Rotation {
  /** There is a place for one more, where those are dropped. */
  readonly hasRoom: boolean
  /** Ids, the oldest first. */
  readonly dropped: readonly string[]
}

export interface RotationState {
  /** Oldest first. */
  readonly kept: readonly RetainedCopy[]
  /** How many there may be. */
  readonly limit: number
  /** Of those by the schedule; 0: as many as there may be. */
  readonly retention: number
}

/**
 * Which make place for one more by the schedule: the oldest that it took, as far as the guest's quota or the
 * schedule's retention is exceeded. Never one made by hand; none at all where those alone fill the quota.
 */
export function planRotation({ kept, limit, retention }: RotationState): Rotation {
  const staying = kept.filter(({ state }) => state !== 'deleting')
  const droppable = staying.filter(isDroppable)
  const overQuota = staying.length + 1 - limit
  if (overQuota > droppable.length) return { hasRoom: false, dropped: [] }
  const scheduled = staying.filter(({ scheduled: byItself }) => byItself).length + 1
  const overRetention = retention === 0 ? 0 : scheduled - retention
  const excess = Math.max(0, overQuota, overRetention)
  return { hasRoom: true, dropped: droppable.slice(0, excess).map(({ id }) => id) }
}

function isDroppable({ scheduled, state }: RetainedCopy): boolean {
  return scheduled && state === 'ready'
}
