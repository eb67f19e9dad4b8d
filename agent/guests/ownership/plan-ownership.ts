/*
 * Decides which host is allowed to run a guest while guests move between hosts (docs/design/moving-guests.md). The
 * functions are pure: `test/operations/ownership-model.test.ts` explores all their sequences.
 */

/**
 * - `absent`: the host has no valid copy of the guest, but remembers the generation.
 * - `owner`: the host owns the guest and is allowed to start it.
 * - `leaving`: the host still owns the guest, and has begun to stop it for a move, which can still fail.
 * - `handed_over`: the complete guest is on the target. Only the gateway decides now who owns it.
 * - `arriving`: the host receives the guest and does not own it yet.
 * - `fenced`: the host has a copy, but the guest belongs to another host. The copy is never started.
 */
export type OwnershipRole = 'absent' | 'owner' | 'leaving' | 'handed_over' | 'arriving' | 'fenced'

/** Owner of a guest, as a host knows it. */
export interface Ownership {
  readonly role: OwnershipRole
  /** The newest generation that the host knows. Each change of the owner and each canceled move gets a new number. */
  readonly generation: number
  /** Id of the move in the roles `leaving`, `handed_over` and `arriving`. Empty in other roles. */
  readonly moveId: string
}

export type OwnershipEvent =
  /** The source is about to stop the guest for the last transfer. */
  | { readonly kind: 'leave'; readonly moveId: string; readonly generation: number }
  /** The source keeps the guest, because the move failed or was canceled. */
  | { readonly kind: 'stay' }
  /** The guest is stopped, and the target has confirmed that it has the whole disk. */
  | { readonly kind: 'hand_over' }
  /** This host is the target of a move, and reserves what the guest needs. */
  | { readonly kind: 'expect'; readonly moveId: string; readonly generation: number }
  /** The gateway has made this host the owner of a guest of a failed host, and this host restores it from a backup. */
  | { readonly kind: 'restore'; readonly generation: number }
  /** The gateway announces the owner that its store contains. */
  | ({ readonly kind: 'appoint' } & Announcement)

export interface Announcement {
  readonly generation: number
  /** True if this host owns the guest. */
  readonly isOwner: boolean
  /**
   * True if this host must keep the disk of a guest that it has handed over. The guest was restored on another host,
   * and the target of the move possibly never received the disk. Absent: false.
   */
  readonly keepsCopy?: boolean
}

/** Effect of an event on the host: `discard` deletes the copy, `fence` stops the guest and keeps its disk. */
export type OwnershipEffect = 'none' | 'start' | 'discard' | 'fence'

export interface OwnershipChange {
  readonly next: Ownership
  readonly effect: OwnershipEffect
}

/** Ownership of a guest that has never moved. */
export const firstOwnership: Ownership = { role: 'owner', generation: 0, moveId: '' }
/** Ownership of a guest that this host does not know. */
export const unknownOwnership: Ownership = { role: 'absent', generation: 0, moveId: '' }

export function mayStart({ role }: Ownership): boolean {
  return role === 'owner'
}

/** Returns the new ownership and the effect of the event. Undefined: the event is invalid now and changes nothing. */
export function planOwnership(known: Ownership, event: OwnershipEvent): OwnershipChange | undefined {
  switch (event.kind) {
    case 'leave':
      return planLeave(known, event)
    case 'stay':
      return known.role === 'leaving' ? become('owner', known.generation) : undefined
    case 'hand_over':
      return known.role === 'leaving' ? changed({ ...known, role: 'handed_over' }) : undefined
    case 'expect':
      return planExpect(known, event)
    case 'restore':
      return planRestore(known, event)
    case 'appoint':
      return planAppoint(known, event)
  }
}

interface MoveStep {
  readonly moveId: string
  readonly generation: number
}

function planLeave(known: Ownership, { moveId, generation }: MoveStep): OwnershipChange | undefined {
  if (known.role !== 'owner' || known.generation !== generation) return undefined
  return changed({ role: 'leaving', generation, moveId })
}

/** Plans the arrival of a guest. A copy that an older, unfinished move left here is discarded. */
function planExpect(known: Ownership, { moveId, generation }: MoveStep): OwnershipChange | undefined {
  const isFree = known.role === 'absent' || known.role === 'arriving'
  if (!isFree || generation < known.generation) return undefined
  const isOther = known.role === 'arriving' && known.moveId !== moveId
  return { next: { role: 'arriving', generation, moveId }, effect: isOther ? 'discard' : 'none' }
}

/** Plans the restore of a guest. Refuses repeated and late orders, whose generation is not above the known one. */
function planRestore(known: Ownership, { generation }: { generation: number }): OwnershipChange | undefined {
  if (known.role !== 'absent' || generation <= known.generation) return undefined
  return changed({ role: 'owner', generation, moveId: '' })
}

/** Plans a decision of the gateway. It can be repeated or late, so only a higher generation takes effect. */
function planAppoint(
  known: Ownership,
  { generation, isOwner, keepsCopy = false }: Announcement,
): OwnershipChange | undefined {
  if (generation <= known.generation) return undefined
  if (isOwner) return known.role === 'absent' ? undefined : become('owner', generation)
  const keeps = ['owner', 'leaving', 'fenced'].includes(known.role) || (known.role === 'handed_over' && keepsCopy)
  if (keeps) return { next: { role: 'fenced', generation, moveId: '' }, effect: 'fence' }
  return { next: { role: 'absent', generation, moveId: '' }, effect: known.role === 'absent' ? 'none' : 'discard' }
}

function become(role: 'owner', generation: number): OwnershipChange {
  return { next: { role, generation, moveId: '' }, effect: 'start' }
}

function changed(next: Ownership): OwnershipChange {
  return { next, effect: 'none' }
}
