import { BerthError } from '../../shared/errors.js'
import type { PoolCapacity } from './pool.js'

const gib = 1024 ** 3

/**
 * Checks if a new disk of this size fits. All disks together are allowed to be larger than the pool, but a single disk
 * is not. A nearly full pool takes no new disk, because existing guests need the remaining space.
 * @throws {BerthError} `resource_exhausted` with the field `disk_gb`
 */
export function checkRoom({ totalBytes, usedBytes }: PoolCapacity, diskBytes: number): void {
  if (diskBytes > totalBytes)
    throw exhausted(`the storage pool of the host has only ${toGib(totalBytes)} GiB`, { field: 'disk_gb' })
  checkFree({ totalBytes, usedBytes }, { field: 'disk_gb' })
}

/** Checks if the pool has space for new data. @throws {BerthError} `resource_exhausted` */
export function checkFree(pool: PoolCapacity, options: { readonly field?: string } = {}): void {
  if (isFull(pool)) throw exhausted(`the storage pool of the host is full: ${describeFree(pool)}`, options)
}

/** Checks that the pool is not full before data of unknown size is written. @throws {BerthError} `storage_full` */
export function refuseFull(pool: PoolCapacity): void {
  if (isFull(pool))
    throw new BerthError('exhausted', 'storage_full', `the storage pool of the host is full: ${describeFree(pool)}`)
}

/** Returns the bytes that new data can take, without the reserve (`planReserveBytes`). 0 if the pool is full. */
export function planFreeBytes({ totalBytes, usedBytes }: PoolCapacity): number {
  return Math.max(0, totalBytes - usedBytes - planReserveBytes(totalBytes))
}

/** Used fraction of the pool that causes a warning. Less free space than twice the reserve also causes a warning. */
const warnedAt = 0.9

/** Returns warnings for the operator about a pool that is full or nearly full. */
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

/** Returns the reserve for existing guests: 2 % of the pool, but at least 1 GiB and at most a tenth of the pool. */
export function planReserveBytes(totalBytes: number): number {
  return Math.max(totalBytes * 0.02, Math.min(gib, totalBytes * 0.1))
}

function exhausted(message: string, options: { readonly field?: string }): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', message, options)
}

function toGib(bytes: number): string {
  return (bytes / gib).toFixed(1)
}
