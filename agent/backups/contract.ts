import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'

/** The backups of one guest at a target. */
export interface Repository {
  readonly target: BackupTarget
  /** The guest's uuid. */
  readonly guest: string
}

export interface FetchedBackup {
  readonly id: string
  /** Directory that the backup is restored to. */
  readonly tree: string
  /** Tree of an image on the same file system. Files that are equal in both share the image's data. */
  readonly image?: string
  /** Called before anything is written if the layout is unusable: large files then take their whole length. */
  readonly makeWholeRoom?: () => Promise<void>
}

/** Context of work that may take hours. */
export interface WorkContext {
  /** When aborted, the work may stop at any point; it is then repeated, or undone. */
  readonly signal: AbortSignal
  /** Reports progress from 0 to 1, and the current stage for users. */
  report(fraction: number, stage?: string): void
}

/** Information about a backup for users, stored with it at its target. */
export interface BackupNote {
  readonly createdBy: string
  readonly description: string
  /** True if a schedule created it. */
  readonly scheduled: boolean
  /** Bytes that counted towards the size of the guest's disk; undefined: not recorded by older versions. */
  readonly usedBytes?: number
  /** Bytes that its large files save compared with their length; absent: none. */
  readonly savedBytes?: number
  /** Bytes that a restore needs in addition while it moves and shares data; absent: not recorded by older versions. */
  readonly movedBytes?: number
  /** Kind of the guest; absent: not recorded by older versions. */
  readonly virtualization?: 'lxc' | 'kvm'
  /** Template of the guest. Its image may contain some of the data. */
  readonly templateId?: string
  /** Name servers that the host assigned to the guest. */
  readonly resolvers?: readonly string[]
}

/** Space that a backup needs, and facts about the original that a restore needs. */
export interface BackupSize extends Omit<BackupNote, 'createdBy' | 'description' | 'scheduled'> {
  /** Apparent length of all files. */
  readonly sizeBytes: number
  readonly fileCount: number
}

export interface StoredBackup extends BackupNote {
  /** Id of the operation that created it. */
  readonly id: string
  readonly createdAtMs: number
}

export interface SentBackup {
  /** Total length of all files in it. */
  readonly sizeBytes: number
  /** Bytes that the target had to store for it after deduplication; 0: the backup already existed. */
  readonly storedBytes: number
}

/**
 * Storage of backups at targets. Every method contacts the target and is idempotent. If the target fails, the error is
 * a BerthError with a code of its own (`plan-failure.ts`), and nothing is left on the host.
 */
export interface BackupRepositories {
  /** Backs up a tree that nobody changes; does nothing if the id already exists. */
  send(at: Repository, sent: { id: string; tree: string; note: BackupNote }, watch: WorkContext): Promise<SentBackup>
  /**
   * Checks that all data of the guest's backups exists, and that a sample of it reads as it was written.
   * @throws {BerthError} `backup_damaged`
   */
  verify(at: Repository, percent: number, watch: WorkContext): Promise<void>
  /** @throws {BerthError} `backup_missing` */
  readSize(at: Repository, id: string, watch: WorkContext): Promise<BackupSize>
  /**
   * Restores a backup into an empty directory and verifies all of it. Holes, shared and compressed data take as little
   * space as in the original.
   * @throws {BerthError} `backup_missing`
   */
  fetch(at: Repository, fetched: FetchedBackup, watch: WorkContext): Promise<void>
  /** Deletes a backup with all data that no other backup of the guest needs. Succeeds if it does not exist. */
  forget(at: Repository, id: string, watch: WorkContext): Promise<void>
  /** Lists backups, oldest first; empty if the guest has none. */
  list(at: Repository, watch: WorkContext): Promise<StoredBackup[]>
  /** Writes a small test backup, reads it back and deletes it. */
  probe(target: BackupTarget, watch: WorkContext): Promise<void>
  /** Removes leftovers of killed agents on the host; no other call may be running. */
  sweep(): Promise<void>
}
