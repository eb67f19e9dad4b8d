import { conflict } from '../../../shared/errors.js'

const mib = 1024 * 1024

/** Length of a disk's stream in bytes, and the time in ms that it took. */
export interface SentDisk {
  readonly bytes: number
  readonly tookMs: number
}

/** If an increment has at most this many bytes, the guest is stopped, because the last increment will be small, too. */
export const smallBytes = 8 * mib
/** Maximum number of increments that are sent while the guest runs, even if they are still getting smaller. */
const maxRounds = 8

/** True if another increment should be sent before the guest is stopped. @param sent bytes of each increment */
export function needsRound(sent: readonly number[]): boolean {
  const [before, last] = sent.slice(-2)
  if (last === undefined && before === undefined) return true
  const newest = last ?? before!
  if (sent.length >= maxRounds || newest <= smallBytes) return false
  return last === undefined || last < before! * 0.8
}

/** Maximum expected duration in ms of the last increment, during which the guest is stopped. */
const maxInterruptionMs = 10 * 60_000

/**
 * Refuses to stop a guest that writes nearly as fast as its data is sent. The last increment would take as long as the
 * newest increment, and the guest would be stopped during this time.
 * @throws {BerthError} `move_too_slow`
 */
export function refuseSlow(newest: SentDisk): void {
  if (newest.bytes <= smallBytes || newest.tookMs <= maxInterruptionMs) return
  const minutes = Math.round(newest.tookMs / 60_000)
  throw conflict(
    'move_too_slow',
    `the container writes so much that it would be stopped for about ${minutes} minutes:` +
      ' allow more bandwidth, or stop the container first',
  )
}

/** Finds the newest snapshot that the source and the target have. @param ids snapshots of the source, oldest first */
export function findParent(ids: readonly string[], targetHas: ReadonlySet<string>): string | undefined {
  return ids.findLast((id) => targetHas.has(id))
}
