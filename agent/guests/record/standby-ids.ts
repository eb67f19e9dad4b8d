import { conflict } from '../../../shared/errors.js'

/*
 * Ids of the hidden snapshots of a warm standby. They begin with the id of the standby, so that a later standby of the
 * same guest does not use them, and they are numbered.
 */

const prefix = 'standby-'

export function standbyPrefix(standbyId: string): string {
  return `${prefix}${standbyId.slice(0, 8)}-`
}

/** True for a snapshot of any standby. */
export function isStandbySnapshot(id: string): boolean {
  return id.startsWith(prefix)
}

/** Returns the snapshots of this standby, oldest first. */
export function sortStandbySnapshots(ids: readonly string[], standbyId: string): string[] {
  return ids.filter((id) => numberOf(id, standbyId) > 0).sort((a, b) => numberOf(a, standbyId) - numberOf(b, standbyId))
}

const maxNumber = 999_999_999

/**
 * Returns the id of the next snapshot.
 * @param known ids of snapshots on both hosts
 * @throws {BerthError} `bad_stream` if there is no next number: the other host has invented a snapshot
 */
export function nextStandbySnapshot(known: readonly string[], standbyId: string): string {
  const newest = Math.max(0, ...known.map((id) => numberOf(id, standbyId)))
  if (newest >= maxNumber) throw conflict('bad_stream', 'the host of the standby reports a snapshot that was not sent')
  return `${standbyPrefix(standbyId)}${newest + 1}`
}

/** Returns the number in the id of a standby's snapshot. Other ids: 0. */
function numberOf(id: string, standbyId: string): number {
  const start = standbyPrefix(standbyId)
  const rest = id.slice(start.length)
  return id.startsWith(start) && /^[1-9]\d{0,8}$/.test(rest) ? Number(rest) : 0
}
