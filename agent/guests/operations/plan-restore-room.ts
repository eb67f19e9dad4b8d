import type { BackupSize } from '../../backups/contract.js'

/** Space that btrfs needs for data and metadata while files are written. */
const overhead = 1.1
const smallestBytes = 64 * 1024 ** 2
const bytesPerFile = 8 * 1024

/**
 * Bytes to record as those that counted for the disk. Snapshots count as well, so it is at most the disk: what fitted on
 * it can be restored onto a disk of the same size.
 * @param limitBytes the guest's disk as sold; 0: the disk limits itself
 */
export function planUsedBytes(countedBytes: number, record: { limitBytes: number; extraBytes: number }): number {
  const usedBytes = Math.max(0, countedBytes - record.extraBytes)
  return record.limitBytes > 0 ? Math.min(usedBytes, record.limitBytes) : usedBytes
}

/** Upper bound of the bytes that the original took. Backups of older versions recorded those of snapshots as well. */
export function planOriginalBytes({ sizeBytes, usedBytes = 0, savedBytes = 0 }: BackupSize): number {
  return Math.min(usedBytes, Math.max(0, sizeBytes - savedBytes))
}

/** Bytes that a backup may take while it is fetched. At that time only large files have holes and share data. */
export function planFetchedBytes(size: BackupSize): number {
  const { sizeBytes, fileCount, usedBytes = 0, savedBytes = 0 } = size
  const writtenBytes = Math.max(0, sizeBytes - savedBytes) + planMovedBytes(size)
  const metadataBytes = Math.min(fileCount * bytesPerFile, Math.max(usedBytes, sizeBytes))
  return Math.ceil(writtenBytes * overhead) + metadataBytes + smallestBytes
}

/** Bytes for data that is moved so that it can be shared. In backups of older versions only large files have room for it. */
function planMovedBytes({ sizeBytes, usedBytes = 0, savedBytes = 0, movedBytes }: BackupSize): number {
  const originalBytes = Math.min(sizeBytes, usedBytes) // the figure includes snapshots of the original
  return movedBytes ?? (savedBytes === 0 ? 0 : originalBytes)
}

export interface RestoredUse {
  /** The guest's disk as sold. */
  readonly limitBytes: number
  /** Bytes of the restored volume that count towards the guest's limit. */
  readonly usedBytes: number
  /** Bytes of the original that counted; undefined: not known. */
  readonly originalBytes: number | undefined
}

/**
 * Bytes by which the guest's limit stays raised, so that it has as much free space as the original. For example, on a
 * host without the original's image, the data of the image counts for the guest. The limit is at most twice the disk,
 * since the guest may overwrite shared data.
 * @returns undefined if the backup does not fit
 */
export function planExtraBytes({ limitBytes, usedBytes, originalBytes }: RestoredUse): number | undefined {
  const soldBytes = Math.min(originalBytes ?? limitBytes, limitBytes) // the figure includes snapshots of the original
  const extraBytes = Math.max(0, usedBytes - soldBytes)
  const mostBytes = originalBytes === undefined ? 0 : limitBytes
  return extraBytes > mostBytes ? undefined : extraBytes
}
