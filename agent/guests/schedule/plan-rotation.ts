/** An existing snapshot or backup of a guest. */
export interface RetainedCopy {
  readonly id: string
  readonly scheduled: boolean
  readonly state: 'taking' | 'ready' | 'deleting'
}

export interface Rotation {
  /** True if there is room for one more copy after the copies in `dropped` have been deleted. */
  readonly hasRoom: boolean
  /** Ids of the copies to delete, oldest first. */
  readonly dropped: readonly string[]
}

export interface RotationState {
  /** Existing copies, oldest first. */
  readonly kept: readonly RetainedCopy[]
  /** Maximum number of copies, including manual ones. */
  readonly limit: number
  /** Maximum number of scheduled copies; 0 means as many as `limit`. */
  readonly retention: number
}

/**
 * Chooses scheduled copies to delete before the schedule creates another copy: the oldest ones beyond the guest's quota
 * or the schedule's retention. Manual copies are never deleted. If manual copies fill the quota, nothing is deleted.
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
