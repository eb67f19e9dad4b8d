/*
 * Room that several callers share: consoles of a guest or a host, event streams. No caller takes all of it, and limited
 * callers leave a reserve to those that nothing limits.
 */

/** Whom something counts for. */
export interface Holding {
  /** What counts together: a caller, or a limited key with all that descends from it. */
  readonly share: string
  /** Whether nothing limits the caller: it may use the reserve, and has no share. */
  readonly unlimited: boolean
}

export interface Room {
  readonly most: number
  /** Of one limited caller. */
  readonly perShare: number
  /**
   * Of `most`, as far as unlimited callers do not use it. Limited callers that have nothing yet may take half of it, so
   * that other limited ones cannot keep them out.
   */
  readonly reserve: number
}

/** @returns which limit one more would exceed; undefined: it finds room */
export function findFullRoom(
  held: Iterable<Holding>,
  { share, unlimited }: Holding,
  room: Room,
): 'share' | 'room' | undefined {
  let [own, all, ofUnlimited] = [0, 0, 0]
  for (const one of held) {
    all++
    if (one.share === share) own++
    if (one.unlimited) ofUnlimited++
  }
  if (unlimited) return all < room.most ? undefined : 'room'
  if (own >= room.perShare) return 'share'
  const reserve = own === 0 ? Math.floor(room.reserve / 2) : room.reserve
  return all < room.most - Math.max(0, reserve - ofUnlimited) ? undefined : 'room'
}
