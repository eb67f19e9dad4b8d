import { setTimeout as delay } from 'node:timers/promises'
import { BerthError } from '../../../shared/errors.js'
import type { BackupSize } from '../../backups/contract.js'
import type { StepContext } from '../../operations/types.js'
import { planFreeBytes } from '../../storage/room.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { DiskContext, GuestContext, GuestVolumes } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { settleRoom } from '../snapshots/settle-room.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { planCopiedBytes, planExtraBytes, planFetchedBytes, planOriginalBytes } from './plan-restore-room.js'
import type { GuestMachines } from '../machines.js'

/** Maximum time in ms that an operation waits until the kernel has freed a deleted disk. */
const vanishMs = 60_000
const pollMs = 500

interface WantedRoom {
  readonly uuid: string
  readonly size: BackupSize
  readonly signal: AbortSignal
}

/**
 * Raises the guest's disk limit, so that a restored backup fits next to the old disk until one of them is deleted.
 * @throws {BerthError} `backup_too_large`, `storage_full`
 */
export async function makeRoom(
  context: DiskContext,
  { uuid, size, signal }: WantedRoom,
  capacity: Pick<HostCapacity, 'readDisk'>,
): Promise<void> {
  const limitBytes = limitOf(context.machines, context.store.get(uuid))
  if (limitBytes > 0 && planOriginalBytes(size) > limitBytes) throw tooLarge()
  const neededBytes = planFetchedBytes(size)
  if (!(await hasFree(capacity, neededBytes))) {
    // The volume of an earlier attempt takes space until the kernel has freed it.
    await untilFreed(() => context.volumes.areFreed(uuid), signal)
    if (!(await hasFree(capacity, neededBytes))) throw poolFull()
  }
  await raiseBound(context, uuid, neededBytes)
}

async function hasFree({ readDisk }: Pick<HostCapacity, 'readDisk'>, bytes: number): Promise<boolean> {
  return planFreeBytes(await readDisk()) >= bytes
}

/** Waits until the kernel has freed deleted volumes. @returns false if it takes too long */
async function untilFreed(isFreed: () => Promise<boolean>, signal: AbortSignal): Promise<boolean> {
  const deadline = performance.now() + vanishMs
  while (!(await isFreed())) {
    if (performance.now() > deadline) return false
    await delay(pollMs, undefined, { signal })
  }
  return true
}

/** Raises the guest's disk limit to its present disk usage plus `bytes`. */
export async function raiseBound(context: DiskContext, uuid: string, bytes: number): Promise<void> {
  const record = context.store.get(uuid)
  const limitBytes = limitOf(context.machines, record)
  if (limitBytes === 0) return
  const boundBytes = volumeLimitOf(context.machines, { ...record, fetchedBytes: 0 })
  const overBytes = Math.max(0, (await usedBytesOf(context.volumes, uuid)) - boundBytes)
  // Never lowers `fetchedBytes`, because an earlier operation may still need the space that it has reserved.
  context.store.update(uuid, { fetchedBytes: Math.max(record.fetchedBytes, bytes + overBytes) })
  await setBound(context, context.store.get(uuid))
}

/** Bytes for data that the agent itself writes to a full disk. */
const workBytes = 16 * 1024 ** 2

/**
 * Runs work that writes to the guest's disk. The disk can be full, so its limit is raised during the work. A running
 * guest must be frozen before, because it could use the additional space itself. After a crash, the reconciler restores
 * the limit.
 */
export async function withRoom<T>(context: DiskContext, uuid: string, work: () => Promise<T>): Promise<T> {
  const { fetchedBytes } = context.store.get(uuid)
  await raiseBound(context, uuid, workBytes)
  try {
    return await work()
  } finally {
    context.store.update(uuid, { fetchedBytes })
    await setBound(context, context.store.get(uuid))
  }
}

/**
 * Records by how much the guest's disk limit must rise when the restored volume becomes its disk. Data that the
 * backed-up guest shared with an image can now count towards the limit. The restored volume must be complete.
 * @throws {BerthError} `backup_too_large`
 */
export async function noteRestored(context: DiskContext, uuid: string, size: BackupSize): Promise<void> {
  const limitBytes = limitOf(context.machines, context.store.get(uuid))
  if (limitBytes === 0) return
  const usedBytes = await context.volumes.measureNext(uuid)
  const extraBytes = planExtraBytes({ limitBytes, usedBytes, originalBytes: size.usedBytes })
  if (extraBytes === undefined) throw tooLarge()
  context.store.update(uuid, { nextExtraBytes: extraBytes })
}

/** Records by how much the guest's disk limit must rise when its disk is made from the copy of its warm standby. */
export async function noteCopied(
  context: DiskContext & Pick<GuestContext, 'transfers'>,
  uuid: string,
  snapshot: string,
): Promise<void> {
  const limitBytes = limitOf(context.machines, context.store.get(uuid))
  const usedBytes = await context.transfers.countReceived(uuid, snapshot)
  context.store.update(uuid, { extraBytes: planCopiedBytes({ limitBytes, usedBytes }) })
}

/**
 * Ends the extra room that a restore needed. The disk limit is lowered only when the kernel has freed the replaced
 * volume. Otherwise a running guest could find its disk full. If this takes long, the reconciler lowers the limit.
 * @param change new `extraBytes` of the guest. If they decrease, `fetchedBytes` increases by as much, so that the limit
 * stays the same until the volume is freed.
 */
export async function endRoom(
  context: DiskContext,
  { subject: { id: uuid }, signal, log }: Pick<StepContext<unknown>, 'subject' | 'signal' | 'log'>,
  change: Partial<Pick<GuestRecord, 'extraBytes'>> = {},
): Promise<void> {
  const record = context.store.find(uuid)
  if (!record || record.fetchedBytes === 0) return
  const { extraBytes } = { ...record, ...change }
  const fetchedBytes = record.fetchedBytes + Math.max(0, record.extraBytes - extraBytes)
  context.store.update(uuid, { extraBytes, fetchedBytes })
  const isFree = await untilFreed(() => settleRoom(context, uuid), signal)
  if (!isFree) return log.info('the space of the replaced disk is not free yet; the agent checks again later')
  if (context.store.find(uuid)) await setBound(context, context.store.get(uuid))
}

function limitOf(machines: GuestMachines, record: GuestRecord): number {
  return machines.driverOf(record).volumeLimitBytes(machines.of(record))
}

async function usedBytesOf(volumes: GuestVolumes, uuid: string): Promise<number> {
  return (await volumes.usage()).get(uuid) ?? 0
}

async function setBound(context: DiskContext, record: GuestRecord): Promise<void> {
  await context.volumes.resize(record.uuid, volumeLimitOf(context.machines, record))
}

function poolFull(): BerthError {
  return new BerthError(
    'exhausted',
    'storage_full',
    'the storage pool has no space for the restored backup in addition to the present disk',
  )
}

function tooLarge(): BerthError {
  return new BerthError('conflict', 'backup_too_large', 'the backup is larger than the disk of the container')
}
