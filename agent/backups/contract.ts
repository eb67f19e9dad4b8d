import type { StageText } from '../../shared/task-stages.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'

/** Storage of one guest's backups at a target. */
export interface Repository {
  readonly target: BackupTarget
  readonly guest: string
}

export interface FetchedBackup {
  readonly id: string
  /** Directory into which the backup is restored. */
  readonly tree: string
  /** Directory of an image, on the file system of `tree`. Restored files share data with equal files of the image. */
  readonly image?: string
  /** Makes room for all files at their full length. Called before the first write if the holes of files are unknown. */
  readonly makeWholeRoom?: () => Promise<void>
}

/** Context of work that can take hours. */
export interface WorkContext {
  /** Aborts the work at any point. The caller then repeats or undoes the work. */
  readonly signal: AbortSignal
  /** Reports the progress from 0 to 1, and the current stage as text for users. */
  report(fraction: number, stage?: StageText): void
}

/** Information about a backup. The backup target stores it with the backup. */
export interface BackupNote {
  readonly createdBy: string
  readonly description: string
  /** True if a schedule created the backup. */
  readonly scheduled: boolean
  /** Bytes that counted towards the size of the guest's disk. Undefined in backups of older versions. */
  readonly usedBytes?: number
  /** Bytes that large files save by holes and shared data: their length minus their space on the disk. Default: 0. */
  readonly savedBytes?: number
  /** Bytes that a restore needs temporarily to make files share data again. Undefined in backups of older versions. */
  readonly movedBytes?: number
  /** Kind of the guest. Undefined in backups of older versions. */
  readonly virtualization?: 'lxc' | 'kvm'
  /** Id of the guest's template. A restore can share data with the image of this template. */
  readonly templateId?: string
  /** Name servers that the original host had set in the guest. */
  readonly resolvers?: readonly string[]
  /** `BackupSettings` of the protocol in base64. Undefined in backups of older versions. */
  readonly settings?: string
  /** Guest's firewall in the form of `encodeFirewall`. Undefined: no firewall, or a backup of an older version. */
  readonly firewall?: string
}

/** Size of a backup, and the facts about the original guest that a restore needs. */
export interface BackupSize extends Omit<BackupNote, 'createdBy' | 'description' | 'scheduled' | 'settings'> {
  /** Total length of all files, including holes. */
  readonly sizeBytes: number
  readonly fileCount: number
}

export interface StoredBackup extends BackupNote {
  /** Id of the operation that created the backup. */
  readonly id: string
  readonly createdAtMs: number
}

export interface SentBackup {
  /** Total length of all files in the backup. */
  readonly sizeBytes: number
  /** Bytes that the target had to store after deduplication. 0: the backup already existed. */
  readonly storedBytes: number
}

/**
 * Storage of backups at targets. Every method contacts the target and is idempotent. If the target fails, the method
 * throws a BerthError whose code describes the cause (`plan-failure.ts`), and leaves nothing on the host.
 */
export interface BackupRepositories {
  /** Backs up a tree, which must not change during the backup. Does nothing if a backup with this id already exists. */
  send(at: Repository, sent: { id: string; tree: string; note: BackupNote }, watch: WorkContext): Promise<SentBackup>
  /**
   * Checks that all data of the guest's backups exists, and compares a sample of the data with the checksums.
   * @param percent size of the sample in percent of the data
   * @throws {BerthError} `backup_damaged`
   */
  verify(at: Repository, percent: number, watch: WorkContext): Promise<void>
  /** @throws {BerthError} `backup_missing` */
  readSize(at: Repository, id: string, watch: WorkContext): Promise<BackupSize>
  /**
   * Restores a backup into an empty directory and verifies all its data. The restored files take as little space as the
   * original ones, even if these have holes, share data or are compressed.
   * @throws {BerthError} `backup_missing`
   */
  fetch(at: Repository, fetched: FetchedBackup, watch: WorkContext): Promise<void>
  /** Deletes a backup, and all data that no other backup of the guest needs. Succeeds if the backup does not exist. */
  forget(at: Repository, id: string, watch: WorkContext): Promise<void>
  /** Lists the guest's backups, oldest first. */
  list(at: Repository, watch: WorkContext): Promise<StoredBackup[]>
  /** Writes a small test backup, reads it back and deletes it. */
  probe(target: BackupTarget, watch: WorkContext): Promise<void>
  /** Removes the working directories of killed agents from the host. Call it only while no other method runs. */
  sweep(): Promise<void>
}
