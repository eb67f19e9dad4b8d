/*
 * Room that several callers share: consoles of a guest or a host, event streams. No caller can take all of it, and a
 * reserve is kept for unlimited callers.
 */

/** The caller that a console or stream counts for. */
export interface Holding {
  /** Unit that counts together: a caller, or a limited key with all its descendants. */
  readonly share: string
  /** True if the caller is unlimited: it may use the reserve, and no share limits it. */
  readonly unlimited: boolean
}

export interface Room {
  readonly most: number
  /** Limit of each share of limited callers. */
  readonly perShare: number
  /**
   * Part of `most` that is kept for unlimited callers while they do not use it. Limited callers that have nothing yet
   * may use half of it, so that other limited callers cannot lock them out.
   */
  readonly reserve: number
}

/** @returns the limit that one more would exceed; undefined: room is available */
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
