/*
 * Plans changes of a guest's stored owner: the host that owns the guest. Each function plans one durable write, or
 * returns `undefined` if the stored owner no longer allows the change. How agents apply a decision is defined in
 * agent/guests/ownership/plan-ownership.ts.
 */

/** A move for which the gateways must still decide whether its target becomes the owner of the guest. */
export interface PendingMove {
  readonly id: string
  readonly toHostId: string
}

export interface GuestOwner {
  readonly hostId: string
  /** Number of decisions about the owner. The end of a move is a decision even if the owner stays the same. */
  readonly generation: number
  readonly move?: PendingMove
}

export function planBegin(owner: GuestOwner, fromHostId: string, move: PendingMove): GuestOwner | undefined {
  if (owner.hostId !== fromHostId || owner.move || move.toHostId === fromHostId) return undefined
  return { hostId: owner.hostId, generation: owner.generation, move }
}

/** Makes the target of the move the owner. Call it only after the source has handed the guest over in this move. */
export function planSwitch({ generation, move }: GuestOwner, moveId: string): GuestOwner | undefined {
  if (move?.id !== moveId) return undefined
  return { hostId: move.toHostId, generation: generation + 1 }
}

/**
 * Makes the source of a move the owner again after the target had become the owner. Call it only if the target has no
 * copy and the source still has a copy.
 */
export function planReturn(
  { hostId, generation, move }: GuestOwner,
  switched: { readonly fromHostId: string; readonly toHostId: string; readonly generation: number },
): GuestOwner | undefined {
  if (move || hostId !== switched.toHostId || generation !== switched.generation) return undefined
  return { hostId: switched.fromHostId, generation: generation + 1 }
}

/**
 * True if the record of a move can be deleted before the guest is restored on another host. The move must be decided,
 * and the failed host must be its source and still the owner.
 */
export function mayForgetMove(
  move: { readonly fromHostId: string; readonly isDecided: boolean },
  failedHostId: string,
): boolean {
  return move.isDecided && move.fromHostId === failedHostId
}

/** Makes another host the owner of a guest whose host has failed. The target restores the guest from a backup. */
export function planEvacuate(owner: GuestOwner, fromHostId: string, toHostId: string): GuestOwner | undefined {
  if (owner.hostId !== fromHostId || owner.move || toHostId === fromHostId) return undefined
  return { hostId: toHostId, generation: owner.generation + 1 }
}

/**
 * Makes the failed host the owner again, because the guest could not be restored. Call it only if the target has no copy.
 * The target may only get the guest again with a later generation.
 */
export function planReinstate(
  { hostId, generation, move }: GuestOwner,
  evacuated: { readonly fromHostId: string; readonly toHostId: string; readonly generation: number },
): GuestOwner | undefined {
  if (move || hostId !== evacuated.toHostId || generation !== evacuated.generation) return undefined
  return { hostId: evacuated.fromHostId, generation: generation + 1 }
}

/**
 * Ends the move without a change of the owner. If the source has handed over the guest, the source may start the guest
 * again. The new generation makes all earlier messages of the move invalid.
 */
export function planCancel({ hostId, generation, move }: GuestOwner, moveId: string): GuestOwner | undefined {
  if (move?.id !== moveId) return undefined
  return { hostId, generation: generation + 1 }
}
