import { conflict } from '../../../shared/errors.js'
import { mostSlowedPercent, type MemoryProgress } from '../../drivers/contract.js'
import { smallBytes, type SentDisk } from './plan-copy-rounds.js'

/*
 * Rules of a live move, in which changes of the disk and the memory are sent in turn. The driver can pause the guest
 * only while memory is sent. Therefore memory is sent only if few changes of the disk are left.
 */

const mib = 1024 * 1024
/** Time in ms that the transfer of the disk's last changes may take, while the guest is paused. */
const leftMs = 1000
/** Maximum number of successive rounds that are too large for a pause of the guest. */
const mostLarge = 10
/** Time in ms after which a move fails if the unsent memory does not shrink at maximum slowdown of the guest. */
const stallMs = 5 * 60_000

/** Returns the maximum bytes of unsent disk changes at which the guest may be paused: about one second of transfer. */
export function planLeftBytes({ bytes, tookMs }: SentDisk, bandwidthMbps: number): number {
  const measured = (bytes / Math.max(1, tookMs)) * leftMs
  const limit = bandwidthMbps === 0 ? Infinity : (bandwidthMbps * 1000 * leftMs) / 8
  return Math.max(mib, Math.min(limit, Math.max(smallBytes, measured)))
}

/** Counts successive rounds that were too large for a pause. @throws {BerthError} `move_too_slow` above `mostLarge` */
export function countLarge(large: number, { bytes }: SentDisk, leftBytes: number): number {
  if (bytes <= leftBytes) return 0
  if (large < mostLarge) return large + 1
  throw conflict(
    'move_too_slow',
    'the container writes to its disk about as fast as the transfer: allow more bandwidth, or use "offline": true',
  )
}

/** Lowest amount of unsent memory at maximum slowdown of the guest, and the time at which it was reached. */
export interface Stall {
  readonly leastBytes: number
  readonly sinceMs: number
}

/** @throws {BerthError} `move_too_slow` if the rest of the memory no longer gets smaller */
export function planStall(
  stall: Stall | undefined,
  { slowedPercent, remainingBytes }: Pick<MemoryProgress, 'slowedPercent' | 'remainingBytes'>,
  nowMs: number,
): Stall | undefined {
  if (slowedPercent < mostSlowedPercent) return undefined
  if (!stall || remainingBytes < stall.leastBytes) return { leastBytes: remainingBytes, sinceMs: nowMs }
  if (nowMs - stall.sinceMs > stallMs) throw memoryTooFast()
  return stall
}

export function memoryTooFast(): Error {
  return conflict(
    'move_too_slow',
    'the container changes its memory faster than it is sent: allow more bandwidth or downtime, or use "offline": true',
  )
}
