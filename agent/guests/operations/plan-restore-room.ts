import type { BackupSize } from '../../backups/contract.js'

/** Factor for the additional space that btrfs needs while files are written. */
const overhead = 1.1
const smallestBytes = 64 * 1024 ** 2
const bytesPerFile = 8 * 1024

/**
 * Returns the used disk space in bytes that is recorded with a backup. `countedBytes` includes snapshots, so it can
 * exceed the disk size. The result is at most the disk size, because the data of a backup always fits on the disk.
 */
export function planUsedBytes(countedBytes: number, record: { limitBytes: number; extraBytes: number }): number {
  const usedBytes = Math.max(0, countedBytes - record.extraBytes)
  return record.limitBytes > 0 ? Math.min(usedBytes, record.limitBytes) : usedBytes
}

/** Returns the bytes that the backed-up disk used. For older backups, the number can also include snapshots. */
export function planOriginalBytes({ sizeBytes, usedBytes = 0, savedBytes = 0 }: BackupSize): number {
  return Math.min(usedBytes, Math.max(0, sizeBytes - savedBytes))
}

/** Returns the space in bytes that a fetched backup can take. Small files are first written without their holes. */
export function planFetchedBytes(size: BackupSize): number {
  const { sizeBytes, fileCount, usedBytes = 0, savedBytes = 0 } = size
  const writtenBytes = Math.max(0, sizeBytes - savedBytes) + planMovedBytes(size)
  const metadataBytes = Math.min(fileCount * bytesPerFile, Math.max(usedBytes, sizeBytes))
  return Math.ceil(writtenBytes * overhead) + metadataBytes + smallestBytes
}

/** Returns the bytes that a restore needs temporarily to make files share data. An estimate for older backups. */
function planMovedBytes({ sizeBytes, usedBytes = 0, savedBytes = 0, movedBytes }: BackupSize): number {
  const originalBytes = Math.min(sizeBytes, usedBytes) // `usedBytes` can also count snapshots
  return movedBytes ?? (savedBytes === 0 ? 0 : originalBytes)
}

export interface RestoredUse {
  /** Size of the guest's disk in bytes. */
  readonly limitBytes: number
  /** Bytes of the restored volume that count towards the guest's disk limit. */
  readonly usedBytes: number
  /** Bytes that counted towards the backed-up guest's disk limit; undefined if they are not known. */
  readonly originalBytes: number | undefined
}

/**
 * Returns the bytes by which the guest's disk limit stays raised after a restore. Restored data can count more than
 * before, for example if this host lacks an image that contains the same data. With the raised limit, the guest has as
 * much free space as the backed-up guest had. This limit is at most twice the disk size.
 * @returns undefined if the backup does not fit
 */
export function planExtraBytes({ limitBytes, usedBytes, originalBytes }: RestoredUse): number | undefined {
  const soldBytes = Math.min(originalBytes ?? limitBytes, limitBytes) // `originalBytes` can include snapshots
  const extraBytes = Math.max(0, usedBytes - soldBytes)
  const mostBytes = originalBytes === undefined ? 0 : limitBytes
  return extraBytes > mostBytes ? undefined : extraBytes
}

/**
 * Returns the bytes by which the disk limit stays raised after a start from a warm standby. On this host, the data of
 * the guest's image counts towards the limit, too. This limit is at most twice the disk size.
 */
export function planCopiedBytes({ limitBytes, usedBytes }: Pick<RestoredUse, 'limitBytes' | 'usedBytes'>): number {
  return Math.min(limitBytes, Math.max(0, usedBytes - limitBytes))
}
