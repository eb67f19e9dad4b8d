import { BerthError } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import type { GuestRecord } from '../record/record.js'
import type { BackupRecord } from '../record/snapshots-and-backups.js'
import type { GuestStore } from '../record/guest-store.js'

/** This file contains functions for backups in guests' records. Each write is part of the caller's transaction. */

/** Id of the volume's snapshot that a backup is sent from. */
export function sentSnapshotId(backupId: string): string {
  return `backup-${backupId}`
}

/** Records a backup before it is created. @throws {BerthError} `quota_exceeded`; incomplete backups count, too */
export function reserveBackup(
  store: GuestStore,
  { uuid, backups }: GuestRecord,
  backup: Pick<BackupRecord, 'id' | 'targetId' | 'createdAtMs' | 'createdBy' | 'description'>,
): void {
  if (backups.length >= limits.backups.max) throw backupsExceeded(backups.length)
  const figures = { sizeBytes: 0, storedBytes: 0, verifiedAtMs: 0 }
  const reserved: BackupRecord = { ...backup, ...figures, scheduled: false, state: 'taking' }
  store.update(uuid, { backups: [...backups, reserved] })
}

export function backupsExceeded(have: number): BerthError {
  return new BerthError('forbidden', 'quota_exceeded', `the container already has ${have} backups: delete one first`)
}

/** Changes the record of a backup. Does nothing if the guest or the backup no longer exists. */
export function updateBackup(
  store: GuestStore,
  uuid: string,
  change: Pick<BackupRecord, 'id'> & Partial<BackupRecord>,
): void {
  const known = store.find(uuid)?.backups
  if (known?.some(({ id }) => id === change.id))
    store.update(uuid, {
      backups: known.map((backup) => (backup.id === change.id ? { ...backup, ...change } : backup)),
    })
}

/** Removes a backup from the guest's record. Does nothing if the guest no longer exists. */
export function forgetBackup(store: GuestStore, uuid: string, id: string): void {
  const known = store.find(uuid)?.backups
  if (known) store.update(uuid, { backups: known.filter((backup) => backup.id !== id) })
}
