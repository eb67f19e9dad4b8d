import type { StoredMove } from './move-store.js'

/** Facts about a move, from the view. */
export interface MoveFacts {
  /** The source's report about the guest. `undefined`: it does not report the guest, or is offline. */
  readonly source: { readonly role: string; readonly moveId: string } | undefined
  /** State of the source's operation. `undefined`: not known. */
  readonly operation: string | undefined
  readonly isSourceOnline: boolean
  readonly isTargetOnline: boolean
  readonly nowMs: number
}

/** Time in ms after which an order counts as lost if the source host does not know it. */
const orderLostMs = 120_000

export type MoveStep = 'wait' | 'switch' | 'cancel' | 'announce'

/** Decides what to do about a move. Every gateway may do it at any time, and repeat it. */
export function planMoveStep(move: StoredMove, facts: MoveFacts): MoveStep {
  const { source, operation, isSourceOnline, isTargetOnline, nowMs } = facts
  if (move.decided) return 'announce'
  // A target that has gone offline could not start the guest.
  if (source?.role === 'handed_over' && source.moveId === move.id) return isTargetOnline ? 'switch' : 'cancel'
  if (operation === 'failed' || operation === 'canceled') return 'cancel'
  const isLost = operation === undefined && isSourceOnline && nowMs - move.beganAtMs > orderLostMs
  return isLost ? 'cancel' : 'wait'
}
