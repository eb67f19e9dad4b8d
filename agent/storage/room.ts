import { BerthError } from '../../shared/errors.js'
import type { PoolCapacity } from './pool.js'

const gib = 1024 ** 3

/**
 * Whether a new disk of that bound may be promised. Bounds may add up to more than the pool has, but none alone,
 * and nothing new comes when the pool is all but full: who is there already needs the rest.
 * @throws {BerthError} `resource_exhausted` of `disk_gb`
 */
export function checkRoom({ totalBytes, usedBytes }: PoolCapacity, diskBytes: number): void {
  if (diskBytes > totalBytes)
    throw exhausted(`the host's pool has ${toGib(totalBytes)} GiB`, { field: 'disk_gb' })
  checkFree({ totalBytes, usedBytes }, { field: 'disk_gb' })
}

/** Whether the pool may have anything new. @throws {BerthError} `resource_exhausted` */
export function checkFree(capacity: PoolCapacity, options: { readonly field?: string } = {}): void {
  const { totalBytes, usedBytes } = capacity
  if (totalBytes - usedBytes >= planReserveBytes(totalBytes)) return
  const free = `${toGib(totalBytes - usedBytes)} of ${toGib(totalBytes)} GiB are free`
  throw exhausted(`the host's pool is full: ${free}`, options)
}

/** Bytes that something new may have, who is there already has the rest; 0: the pool is full. */
export function planFreeBytes({ totalBytes, usedBytes }: PoolCapacity): number {
  return Math.max(0, totalBytes - usedBytes - planReserveBytes(totalBytes))
}

/** 1 GiB or 2 %, whichever is more, but never more than a tenth of a small pool. */
export function planReserveBytes(totalBytes: number): number {
  return Math.max(totalBytes * 0.02, Math.min(gib, totalBytes * 0.1))
}

function exhausted(message: string, options: { readonly field?: string }): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', message, options)
}

function toGib(bytes: number): string {
  return (bytes / gib).toFixed(1)
}
