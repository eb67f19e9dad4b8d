import { BerthError } from '../../shared/errors.js'
import type { PoolCapacity } from './pool.js'

const gib = 1024 ** 3

/**
 * Checks whether there is room for a new disk of this size. Sizes may add up to more than the pool, but none may exceed
 * it alone, and a nearly full pool takes no new disk, as existing guests need the rest.
 * @throws {BerthError} `resource_exhausted` of `disk_gb`
 */
export function checkRoom({ totalBytes, usedBytes }: PoolCapacity, diskBytes: number): void {
  if (diskBytes > totalBytes) throw exhausted(`the host's pool has only ${toGib(totalBytes)} GiB`, { field: 'disk_gb' })
  checkFree({ totalBytes, usedBytes }, { field: 'disk_gb' })
}

/** Whether the pool may have anything new. @throws {BerthError} `resource_exhausted` */
export function checkFree(pool: PoolCapacity, options: { readonly field?: string } = {}): void {
  if (isFull(pool)) throw exhausted(`the host's pool is full: ${describeFree(pool)}`, options)
}

/** What has no size of its own, but holds what is there. @throws {BerthError} `storage_full` */
export function refuseFull(pool: PoolCapacity): void {
  if (isFull(pool)) throw new BerthError('exhausted', 'storage_full', `the host's pool is full: ${describeFree(pool)}`)
}

/** Bytes that something new may have, who is there already has the rest; 0: the pool is full. */
export function planFreeBytes({ totalBytes, usedBytes }: PoolCapacity): number {
  return Math.max(0, totalBytes - usedBytes - planReserveBytes(totalBytes))
}

/** Part of the pool that, once filled, the operator hears of; of a small one sooner: with two reserves left. */
const warnedAt = 0.9

/** What the operator should hear of the pool while there is room yet, and once there is none. */
export function planRoomWarnings(pool: PoolCapacity): string[] {
  const { totalBytes, usedBytes } = pool
  const isNear = usedBytes >= totalBytes * warnedAt || totalBytes - usedBytes < 2 * planReserveBytes(totalBytes)
  if (totalBytes === 0 || !isNear) return []
  const used = `storage pool ${Math.round((usedBytes / totalBytes) * 100)} % full, ${describeFree(pool)}`
  return [isFull(pool) ? `${used}: new containers, snapshots and larger disks are refused until space is freed` : used]
}

function isFull({ totalBytes, usedBytes }: PoolCapacity): boolean {
  return totalBytes - usedBytes < planReserveBytes(totalBytes)
}

function describeFree({ totalBytes, usedBytes }: PoolCapacity): string {
  return `${toGib(totalBytes - usedBytes)} of ${toGib(totalBytes)} GiB are free`
}

/** 1 GiB or 2 %, whichever is more, but at most a tenth of a small pool. */
export function planReserveBytes(totalBytes: number): number {
  return Math.max(totalBytes * 0.02, Math.min(gib, totalBytes * 0.1))
}

function exhausted(message: string, options: { readonly field?: string }): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', message, options)
}

function toGib(bytes: number): string {
  return (bytes / gib).toFixed(1)
}
