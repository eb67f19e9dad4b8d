import { BerthError, notFound } from '../../../shared/errors.js'
import { sentSnapshotId } from './backups.js'
import type { DiskContext } from '../context.js'
import { CopyJournal, listCopied } from '../record/copy-journal.js'
import { sortStandbySnapshots } from '../record/standby-ids.js'
import type { GuestRecord } from '../record/record.js'
import type { SnapshotRecord } from '../record/snapshots-and-backups.js'
import type { GuestStore } from '../record/guest-store.js'

/** This file contains functions for snapshots in guests' records. Each write is part of the caller's transaction. */

/** Records a snapshot before it is taken. @throws {BerthError} `quota_exceeded`; incomplete snapshots count, too */
export function reserveSnapshot(
  store: GuestStore,
  { uuid, snapshots, snapshotLimit }: GuestRecord,
  snapshot: Omit<SnapshotRecord, 'state' | 'sizeBytes' | 'scheduled'>,
): void {
  if (snapshots.length >= snapshotLimit) throw quotaExceeded(snapshotLimit, snapshots.length)
  const reserved: SnapshotRecord = { ...snapshot, scheduled: false, sizeBytes: 0, state: 'taking' }
  store.update(uuid, { snapshots: [...snapshots, reserved] })
}

export function quotaExceeded(limit: number, have: number): BerthError {
  const message = `the container may have ${limit} snapshots, and already has ${have}: delete one first`
  return new BerthError('forbidden', 'quota_exceeded', message)
}

/** Returns a complete snapshot. @throws {BerthError} `not_found` */
export function getReadySnapshot({ snapshots }: GuestRecord, id: string): SnapshotRecord {
  const found = snapshots.find((snapshot) => snapshot.id === id && snapshot.state === 'ready')
  if (!found) throw notFound('snapshot')
  return found
}

/** Changes the record of a snapshot. Does nothing if the guest or the snapshot no longer exists. */
export function updateSnapshot(
  store: GuestStore,
  uuid: string,
  change: Pick<SnapshotRecord, 'id'> & Partial<SnapshotRecord>,
): void {
  const known = store.find(uuid)?.snapshots
  if (known?.some(({ id }) => id === change.id))
    store.update(uuid, {
      snapshots: known.map((snapshot) => (snapshot.id === change.id ? { ...snapshot, ...change } : snapshot)),
    })
}

export function forgetSnapshot(store: GuestStore, uuid: string, id: string): void {
  const known = store.find(uuid)?.snapshots ?? []
  store.update(uuid, { snapshots: known.filter((snapshot) => snapshot.id !== id) })
}

/** Prefix of the ids of hidden snapshots that exports read. `Exports` deletes them. */
export const exportPrefix = 'export-'

export function isExportSnapshot(id: string): boolean {
  return id.startsWith(exportPrefix)
}

/**
 * Deletes snapshots that earlier operations failed to delete: those in the pool that the guest's record lacks. Keeps the
 * copy of a standby, which is needed again if the guest's restore from a backup fails.
 */
export async function removeStrays({ store, volumes }: DiskContext, uuid: string): Promise<void> {
  const { snapshots, backups, standby } = store.get(uuid)
  const sent = backups.flatMap(({ id, state }) => (state === 'taking' ? [sentSnapshotId(id)] : []))
  const known = new Set([...snapshots.map(({ id }) => id), ...sent, ...listCopied(store, uuid)])
  const present = await volumes.listSnapshots(uuid)
  for (const id of standby ? sortStandbySnapshots(present, standby.standbyId) : []) known.add(id)
  for (const id of present) if (!known.has(id) && !isExportSnapshot(id)) await volumes.deleteSnapshot(uuid, id)
}

/** Removes all volumes and snapshots of a guest from this host, except the copy of its standby. */
export async function removeVolumes({ store, volumes }: DiskContext, uuid: string): Promise<void> {
  const copied = listCopied(store, uuid)
  if (copied.size === 0) return volumes.remove(uuid)
  for (const id of await volumes.listSnapshots(uuid)) if (!copied.has(id)) await volumes.deleteSnapshot(uuid, id)
  await volumes.removeDisk(uuid)
}

/**
 * Deletes the copy of a standby whose guest is on this host now. If the agent is killed, its next start deletes it.
 * Otherwise a gateway does, when it finds that the guest does not have a standby.
 */
export async function removeCopy({ store, volumes }: DiskContext, uuid: string): Promise<void> {
  const journal = new CopyJournal(store.changes.db)
  if (!journal.find(uuid)) return
  const copied = listCopied(store, uuid)
  store.changes.transaction(() => journal.markRemoving(uuid))
  for (const id of copied) await volumes.deleteSnapshot(uuid, id)
  store.changes.transaction(() => journal.forget(uuid))
}
