import type { StoredMove } from './move-store.js'

export interface MoveFacts {
  /** The source host's report about the guest. `undefined`: the host is offline, or does not report the guest. */
  readonly source: { readonly role: string; readonly moveId: string } | undefined
  /** State of the move's operation on the source host. `undefined`: not known. */
  readonly operation: string | undefined
  readonly isSourceOnline: boolean
  readonly isSourceRemoved: boolean
  readonly isTargetOnline: boolean
  readonly nowMs: number
}

/** Time in ms after which the order of a move counts as lost if the source host has no operation for the move. */
const orderLostMs = 120_000

export type MoveStep = 'wait' | 'switch' | 'cancel' | 'announce'

/** Next step after the guest's owner (a host) was informed. `tell`: the move's other host must delete its copy. */
export type AnnouncedStep = 'tell' | 'return' | 'forget' | 'wait'

/** Decides the next step of a move. Every gateway can take this step at any time, and repeat it. */
export function planMoveStep(move: StoredMove, facts: MoveFacts): MoveStep {
  const { source, operation, isSourceOnline, isSourceRemoved, isTargetOnline, nowMs } = facts
  if (move.decided) return 'announce'
  // The source has handed over the guest. An offline target cannot start the guest, so the source keeps the guest.
  if (source?.role === 'handed_over' && source.moveId === move.id) return isTargetOnline ? 'switch' : 'cancel'
  if (isSourceRemoved || operation === 'failed' || operation === 'canceled') return 'cancel'
  const isLost = operation === undefined && isSourceOnline && nowMs - move.beganAtMs > orderLostMs
  return isLost ? 'cancel' : 'wait'
}

/**
 * Decides the next step of a move after its decision was announced to the guest's owner (a host).
 * @param hasOwner false if this host was removed from the fleet, or does not have the guest
 */
export function planAnnounced({ decided, fromHostId }: StoredMove, hasOwner: boolean, facts: MoveFacts): AnnouncedStep {
  const { source, isSourceOnline, isSourceRemoved } = facts
  if (hasOwner || decided?.ownerId === fromHostId) return 'tell'
  // The target has no copy of the guest. The source has the last copy and becomes the owner again.
  if (source && source.role !== 'absent') return 'return'
  return isSourceOnline || isSourceRemoved ? 'forget' : 'wait'
}

/** Returns the public IPv4 addresses that a guest keeps. The target has reserved them, and the source frees them. */
export function planKept(before: readonly string[], after: readonly string[]): string[] {
  return before.filter((address) => after.includes(address))
}
