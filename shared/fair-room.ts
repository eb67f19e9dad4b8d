/*
 * Capacity that several callers share. Examples are the consoles of a guest or host, and event streams. No limited
 * caller can use all of it. A reserve is kept for unlimited callers.
 */

/** The caller that occupies one console or stream. */
export interface Holding {
  /** Id by which consoles or streams are counted. A limited API key and all keys created from it have the same id. */
  readonly share: string
  /** True for administrators and unlimited API keys. They can use the reserve, and `perShare` does not limit them. */
  readonly unlimited: boolean
}

export interface Room {
  readonly most: number
  /** Maximum number of consoles or streams that count for one limited caller (`Holding.share`). */
  readonly perShare: number
  /**
   * Part of `most` that only unlimited callers can use. Exception: a limited caller that has no console or stream can
   * use half of this part. Without the exception, other limited callers could lock out this caller.
   */
  readonly reserve: number
}

/** @returns the limit that one more console or stream would exceed; undefined if it exceeds no limit */
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
