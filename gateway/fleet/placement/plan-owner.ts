/*
 * The owner of a guest, as stored. Each function plans one durable write. `undefined`: the record has changed
 * meanwhile, so nothing is written. agent/guests/ownership/plan-ownership.ts shows how agents apply a decision.
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
 * Makes the source of a move the owner again, although the target was the owner already. The caller knows that the
 * target has no copy, and that the source still has the guest.
 */
export function planReturn(
  { hostId, generation, move }: GuestOwner,
  switched: { readonly fromHostId: string; readonly toHostId: string; readonly generation: number },
): GuestOwner | undefined {
  if (move || hostId !== switched.toHostId || generation !== switched.generation) return undefined
  return { hostId: switched.fromHostId, generation: generation + 1 }
}

/**
 * Ends the move without a change of the owner. The new generation makes all earlier messages of the move invalid. If
 * the source has handed over the guest, it may start the guest again.
 */
export function planCancel({ hostId, generation, move }: GuestOwner, moveId: string): GuestOwner | undefined {
  if (move?.id !== moveId) return undefined
  return { hostId, generation: generation + 1 }
}
