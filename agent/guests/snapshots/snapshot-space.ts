import { setTimeout as delay } from 'node:timers/promises'
import type { SnapshotTaken } from '../../storage/volumes.js'
import type { DiskContext, GuestVolumes } from '../context.js'
import { sortStandbySnapshots } from '../record/standby-ids.js'
import {
  planAllowance,
  planHeld,
  planRaised,
  planRetained,
  planSettled,
  refuseBeyondSpace,
} from './plan-snapshot-space.js'
import type { GuestRecord } from '../record/record.js'
import type { SnapshotSpace } from '../record/snapshots-and-backups.js'
import { volumeLimitOf } from './volume-bound.js'
import type { GuestStore } from '../record/guest-store.js'

/*
 * Snapshots must not take the disk space that a guest's owner pays for. The space that they retain is therefore added
 * to the guest's disk limit. The limit is raised before a snapshot is taken. It is lowered after a snapshot was deleted
 * and the kernel has freed its space. See docs/design/storage.md.
 */

/**
 * Maximum time in ms that an operation waits until the space of deleted snapshots is free. If it takes longer, the
 * reconciler lowers the disk limit.
 */
const settleMs = 5000
const lookMs = 200

/** Returns the bytes that the guest's snapshots would retain if one more snapshot were taken now. */
export function readExpected(volumes: GuestVolumes, record: GuestRecord): Promise<number> {
  return volumes.expectedRetained(record.uuid, planRetained(record))
}

/**
 * Takes a snapshot that counts towards the guest's space limit. Can be repeated. The caller holds the guest's mutex.
 * @throws {BerthError} `snapshot_space_exceeded`; the snapshot is then removed again
 */
export async function takeCounted(context: DiskContext, uuid: string, id: string): Promise<SnapshotTaken> {
  const before = context.store.get(uuid)
  const taken = await takeRaised(context, before, id)
  try {
    refuseBeyondSpace(before, taken.retainedBytes)
  } catch (error) {
    await context.volumes.deleteSnapshot(uuid, id)
    throw error
  }
  note(context.store, uuid, { retainedBytes: taken.retainedBytes })
  return taken
}

/**
 * Takes a temporary snapshot for the agent itself. It raises the disk limit, but does not count towards the space limit
 * of snapshots. The caller holds the guest's mutex.
 */
export function takeHidden(context: DiskContext, uuid: string, id: string): Promise<SnapshotTaken> {
  return takeRaised(context, context.store.get(uuid), id)
}

/** Takes a snapshot. Raises the disk limit, because the snapshot's data still counts when the guest overwrites it. */
async function takeRaised(context: DiskContext, record: GuestRecord, id: string): Promise<SnapshotTaken> {
  const { volumes, store, machines } = context
  const { uuid } = record
  const diskBytes = machines.driverOf(record).volumeLimitBytes(machines.of(record))
  const isRaised = volumes.snapshotsCount && diskBytes > 0
  const retainedBytes = planRetained(record)
  const limits = isRaised ? { limitBytes: volumeLimitOf(machines, record) + diskBytes } : {}
  const taken = await volumes.snapshot(uuid, id, { retainedBytes, ...limits })
  if (volumes.snapshotsCount)
    note(store, uuid, { allowanceBytes: planRaised(record, { measured: taken.retainedBytes, diskBytes }) })
  if (isRaised) await volumes.resize(uuid, volumeLimitOf(machines, store.get(uuid)))
  return taken
}

/** Deletes a snapshot. The bytes that only this snapshot used, if known, no longer count as retained bytes. */
export function deleteCounted(context: DiskContext, uuid: string, id: string): Promise<void> {
  return context.store.mutex.run(uuid, () => deleteInTurn(context, uuid, id))
}

async function deleteInTurn(context: DiskContext, uuid: string, id: string): Promise<void> {
  const { volumes, store } = context
  const freedBytes = await volumes.exclusiveBytes(uuid, id)
  const found = await volumes.deleteSnapshot(uuid, id)
  const record = store.find(uuid)
  if (found && record && freedBytes > 0)
    note(store, uuid, { retainedBytes: Math.max(0, planRetained(record) - freedBytes) })
}

/** `settled`: the limit is up to date; `freeing`: deleted data is being freed; `held`: a temporary snapshot exists. */
export type SpaceState = 'settled' | 'freeing' | 'held'

/**
 * Lowers the disk limit to the size of the disk plus the space that the remaining snapshots retain. Changes nothing
 * until the kernel has freed the space of deleted snapshots.
 */
export async function settleSpace(context: DiskContext, uuid: string): Promise<SpaceState> {
  const known = context.store.find(uuid)
  if (!known || hasNothing(known)) return 'settled'
  const { settled, hasHidden } = await measure(context, known)
  if (isSettled(known, settled)) return 'settled'
  if (hasHidden) return 'held'
  if (!(await context.volumes.areFreed(uuid))) return 'freeing'
  return context.store.mutex.run(uuid, () => settleFreed(context, uuid))
}

async function settleFreed(context: DiskContext, uuid: string): Promise<SpaceState> {
  const { store, volumes } = context
  const record = store.find(uuid)
  if (!record) return 'settled'
  const { settled, hasHidden } = await measure(context, record)
  if (hasHidden) return 'held'
  if (!(await volumes.areFreed(uuid))) return 'freeing' // a snapshot was deleted since the last check
  store.update(uuid, { snapshotSpace: settled })
  const limitBytes = volumeLimitOf(context.machines, store.get(uuid))
  if (volumes.snapshotsCount && limitBytes > 0) await volumes.resize(uuid, limitBytes)
  return 'settled'
}

/**
 * Waits until the space of deleted snapshots is free, usually less than a second, and then lowers the disk limit.
 * @returns false if the space is not free yet, or the guest has a temporary snapshot
 */
export async function awaitSettled(context: DiskContext, uuid: string, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + settleMs
  while (!(await context.volumes.areFreed(uuid))) {
    if (performance.now() > deadline) return false
    await delay(lookMs, undefined, { signal })
  }
  return (await settleSpace(context, uuid)) === 'settled'
}

async function measure({ volumes, machines }: Pick<DiskContext, 'volumes' | 'machines'>, record: GuestRecord) {
  const { present, hasHidden, hasStandby } = await findPresent(volumes, record)
  const usageBytes = await readExpected(volumes, record)
  const { snapshotsCount } = volumes
  const settled = planSettled(record, { present, usageBytes, snapshotsCount })
  if (!hasStandby || !snapshotsCount) return { settled, hasHidden }
  // The snapshot of a warm standby stays until the next increment.
  const diskBytes = machines.driverOf(record).volumeLimitBytes(machines.of(record))
  const heldBytes = planHeld({ diskBytes, takenBytes: record.standby?.takenBytes ?? 0 })
  return { settled: { ...settled, allowanceBytes: settled.allowanceBytes + heldBytes }, hasHidden }
}

/** True if the guest has no snapshots and no retained space, like most guests. This check reads only the record. */
function hasNothing(record: GuestRecord): boolean {
  return record.snapshots.length === 0 && planRetained(record) === 0 && planAllowance(record) === 0
}

/**
 * True if the guest's record already contains the measured numbers. If the space of the guest's snapshots was never
 * measured, the record contains only estimates.
 */
function isSettled(record: GuestRecord, { retainedBytes, allowanceBytes }: SnapshotSpace): boolean {
  const isKnown = record.snapshotSpace.isMeasured || retainedBytes === 0
  return isKnown && planRetained(record) === retainedBytes && planAllowance(record) === allowanceBytes
}

async function findPresent(volumes: GuestVolumes, { uuid, snapshots, standby }: GuestRecord) {
  const ids = new Set(await volumes.listSnapshots(uuid))
  const present = snapshots.filter(({ id }) => ids.has(id))
  const standing = standby ? sortStandbySnapshots([...ids], standby.standbyId).length : 0
  // During an increment, a standby has two snapshots. The one that is being sent is hidden.
  return { present, hasHidden: ids.size > present.length + Math.min(1, standing), hasStandby: standing > 0 }
}

function note(store: GuestStore, uuid: string, change: Partial<SnapshotSpace>): void {
  const record = store.find(uuid)
  if (!record) return
  const known = {
    retainedBytes: planRetained(record),
    allowanceBytes: planAllowance(record),
    isMeasured: true,
  }
  store.update(uuid, { snapshotSpace: { ...record.snapshotSpace, ...known, ...change } })
}
