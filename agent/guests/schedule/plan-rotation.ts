/** An existing snapshot or backup of a guest. */
export interface RetainedCopy {
  readonly id: string
  readonly scheduled: boolean
  readonly state: 'taking' | 'ready' | 'deleting'
}

export interface Rotation {
  /** True if there is room for one more after the drops. */
  readonly hasRoom: boolean
  /** Ids, oldest first. */
  readonly dropped: readonly string[]
}

export interface RotationState {
  /** Oldest first. */
  readonly kept: readonly RetainedCopy[]
  /** Maximum number of copies. */
  readonly limit: number
  /** Maximum number of scheduled copies; 0: as many as `limit`. */
  readonly retention: number
}

/**
 * Chooses the copies that make room for one more by the schedule: the oldest scheduled ones, as far as the guest's
 * quota or the schedule's retention is exceeded. A manual copy is never dropped. Nothing is dropped if manual copies
 * fill the quota by themselves.
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
