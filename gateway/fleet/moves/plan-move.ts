import type { StoredMove } from './move-store.js'

/** Facts about a move, from the view. */
export interface MoveFacts {
  /** The source's report about the guest. `undefined`: it does not report the guest, or is offline. */
  readonly source: { readonly role: string; readonly moveId: string } | undefined
  /** State of the source's operation. `undefined`: not known. */
  readonly operation: string | undefined
  readonly isSourceOnline: boolean
  /** True if the source was removed from the fleet. */
  readonly isSourceRemoved: boolean
  readonly isTargetOnline: boolean
  readonly nowMs: number
}

/** Time in ms after which an order counts as lost if the source host does not know it. */
const orderLostMs = 120_000

export type MoveStep = 'wait' | 'switch' | 'cancel' | 'announce'

/** The step after the announcement to the owner. `tell`: order the other host of the move to delete its copy. */
export type AnnouncedStep = 'tell' | 'return' | 'forget' | 'wait'

/** Decides the next step of a move. Every gateway may take this step at any time, and repeat it. */
export function planMoveStep(move: StoredMove, facts: MoveFacts): MoveStep {
  const { source, operation, isSourceOnline, isSourceRemoved, isTargetOnline, nowMs } = facts
  if (move.decided) return 'announce'
  // A target that has gone offline could not start the guest.
  if (source?.role === 'handed_over' && source.moveId === move.id) return isTargetOnline ? 'switch' : 'cancel'
  if (isSourceRemoved || operation === 'failed' || operation === 'canceled') return 'cancel'
  const isLost = operation === undefined && isSourceOnline && nowMs - move.beganAtMs > orderLostMs
  return isLost ? 'cancel' : 'wait'
}

/**
 * Decides what follows an announcement to the owner.
 * @param hasOwner false if the owner's host was removed from the fleet, or does not have the guest
 */
export function planAnnounced({ decided, fromHostId }: StoredMove, hasOwner: boolean, facts: MoveFacts): AnnouncedStep {
  const { source, isSourceOnline, isSourceRemoved } = facts
  if (hasOwner || decided?.ownerId === fromHostId) return 'tell'
  // The source has the last copy. It must not delete this copy for a target that has no copy.
  if (source && source.role !== 'absent') return 'return'
  return isSourceOnline || isSourceRemoved ? 'forget' : 'wait'
}
