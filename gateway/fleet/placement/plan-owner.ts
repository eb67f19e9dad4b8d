/*
 * The store's record of a guest's owner. Each function plans one durable write; `undefined` means that the record has
 * changed meanwhile and nothing is written. How agents apply a decision: agent/guests/ownership/plan-ownership.ts.
 */

/** A move that has begun and is not decided yet. */
export interface PendingMove {
  readonly id: string
  readonly toHostId: string
}

export interface GuestOwner {
  readonly hostId: string
  /** Number of decisions about the owner. It grows when the guest moves, and when a move is canceled. */
  readonly generation: number
  /** Undecided move of the guest. */
  readonly move?: PendingMove
}

/** Begins a move from the present owner. */
export function planBegin(owner: GuestOwner, fromHostId: string, move: PendingMove): GuestOwner | undefined {
  if (owner.hostId !== fromHostId || owner.move || move.toHostId === fromHostId) return undefined
  return { hostId: owner.hostId, generation: owner.generation, move }
}

/** Makes the target the owner. The caller knows that the source has handed the guest over in this move. */
export function planSwitch({ generation, move }: GuestOwner, moveId: string): GuestOwner | undefined {
  if (move?.id !== moveId) return undefined
  return { hostId: move.toHostId, generation: generation + 1 }
}

/**
 * Makes the source of a switched move the owner again. The caller knows that the target has no copy, and that the source
 * still has the guest that it handed over.
 */
export function planReturn(
  { hostId, generation, move }: GuestOwner,
  switched: { readonly fromHostId: string; readonly toHostId: string; readonly generation: number },
): GuestOwner | undefined {
  if (move || hostId !== switched.toHostId || generation !== switched.generation) return undefined
  return { hostId: switched.fromHostId, generation: generation + 1 }
}

/**
 * Ends the move without a change of the owner. The new generation invalidates everything that was sent for the move,
 * and allows a source that has handed the guest over to start it again.
 */
export function planCancel({ hostId, generation, move }: GuestOwner, moveId: string): GuestOwner | undefined {
  if (move?.id !== moveId) return undefined
  return { hostId, generation: generation + 1 }
}
