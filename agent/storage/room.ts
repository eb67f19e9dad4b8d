import { BerthError } from '../../shared/errors.js'
import type { PoolCapacity } from './pool.js'

const gib = 1024 ** 3

/**
 * Checks whether there is room for a new disk of this size. Sizes may add up to more than the pool, but none may exceed
 * it alone, and a nearly full pool takes no new disk, as existing guests need the rest.
 * @throws {BerthError} `resource_exhausted` of `disk_gb`
 */
export function checkRoom({ totalBytes, usedBytes }: PoolCapacity, diskBytes: number): void {
  if (diskBytes > totalBytes) throw exhausted(`the host's pool has ${toGib(totalBytes)} GiB`)
  const freeBytes = totalBytes - usedBytes
  if (freeBytes < planReserveBytes(totalBytes))
    throw exhausted(`the host's pool is full: ${toGib(freeBytes)} of ${toGib(totalBytes)} GiB are free`)
}

/** 1 GiB or 2 %, whichever is more, but at most a tenth of a small pool. */
export function planReserveBytes(totalBytes: number): number {
  return Math.max(totalBytes * 0.02, Math.min(gib, totalBytes * 0.1))
}

function exhausted(message: string): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', message, { field: 'disk_gb' })
}

function toGib(bytes: number): string {
  return (bytes / gib).toFixed(1)
}
