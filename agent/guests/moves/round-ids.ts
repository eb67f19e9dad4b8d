/*
 * Ids of the hidden snapshots that a move takes and sends. They begin with the id of the move, so that other moves do
 * not use them. The rounds of a move are numbered. Agents of earlier versions use the same ids.
 */

/** `last`: the disk of a stopped guest. `live-last`: the disk of a guest that is only paused. */
export type SentRound = number | 'last' | 'live-last'

export function sentPrefix(moveId: string): string {
  return `move-${moveId.slice(0, 8)}-`
}

export function sentId(moveId: string, round: SentRound): string {
  return `${sentPrefix(moveId)}${round}`
}

/** Returns the number of a round of this move. Undefined: the id belongs to another snapshot. */
export function findRound(moveId: string, id: string): number | undefined {
  const prefix = sentPrefix(moveId)
  const rest = id.slice(prefix.length)
  return id.startsWith(prefix) && /^\d{1,9}$/.test(rest) ? Number(rest) : undefined
}
