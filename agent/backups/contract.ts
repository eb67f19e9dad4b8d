import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'

/** What is kept of one guest at a target. */
export interface Repository {
  readonly target: BackupTarget
  /** The guest's uuid. */
  readonly guest: string
}

export interface FetchedBackup {
  readonly id: string
  /** The directory. */
  readonly tree: string
  /** Tree of an image on the same file system. Files that are equal there share its data. */
  readonly image?: string
}

/** Around work that may take hours. */
export interface WorkContext {
  /** What is begun may stop anywhere then; it is done again, or undone. */
  readonly signal: AbortSignal
  /** Progress from 0 to 1, and what is being done, for people. */
  report(fraction: number, stage?: string): void
}

/** What people want to know of a backup, kept with it at its target. */
export interface BackupNote {
  readonly createdBy: string
  readonly description: string
  /** Made by a schedule. */
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
  /** That of the operation that made it. */
  readonly id: string
  readonly createdAtMs: number
}

export interface SentBackup {
  /** Of all files in it. */
  readonly sizeBytes: number
  /** What the target had to take for it, after what it had already; 0: it was there. */
  readonly storedBytes: number
}

/**
 * Where backups are kept. Every method asks the target and is safe to repeat; what fails for the target's sake is a
 * BerthError with a code of its own (`failures.ts`), and nothing is left on the host.
 */
export interface BackupRepositories {
  /** Keeps a tree that nobody changes; done once for each id. */
  send(at: Repository, sent: { id: string; tree: string; note: BackupNote }, watch: WorkContext): Promise<SentBackup>
  /**
   * Whether all is there that the backups of the guest need, and a share of it reads as it was written.
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
  /** With all that no other backup of the guest needs. One that is not there is gone. */
  forget(at: Repository, id: string, watch: WorkContext): Promise<void>
  /** Oldest first; none where nothing was kept of the guest. */
  list(at: Repository, watch: WorkContext): Promise<StoredBackup[]>
  /** Keeps something small, reads it back and deletes it. */
  probe(target: BackupTarget, watch: WorkContext): Promise<void>
  /** Removes what killed agents left on the host; nothing may be under way. */
  sweep(): Promise<void>
}
