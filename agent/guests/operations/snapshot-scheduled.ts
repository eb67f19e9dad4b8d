import type { OperationDefinition, OperationOutcome, Step, StepContext } from '../../operations/types.js'
import type { Submission } from '../../operations/submission.js'
import { refuseFull } from '../../storage/room.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { DiskContext, GuestContext } from '../context.js'
import { planSpaceLimit, refuseBeyondSpace } from '../snapshots/plan-snapshot-space.js'
import type { GuestRecord } from '../record/record.js'
import type { SnapshotRecord } from '../record/snapshots-and-backups.js'
import { planRotation } from '../schedule/plan-rotation.js'
import type { ScheduledKind } from '../schedule/scheduler.js'
import { awaitSettled, deleteCounted, readExpected } from '../snapshots/snapshot-space.js'
import { forgetSnapshot, quotaExceeded, updateSnapshot } from '../snapshots/snapshots.js'
import type { GuestStore } from '../record/guest-store.js'
import { guestSubject } from './guest-order.js'
import { takeStep } from './snapshot-create.js'

/** The creator that is shown for scheduled snapshots and their tasks. */
export const scheduleUser = 'schedule'
const action = 'snapshot-scheduled'
const gib = 1024 ** 3

interface ScheduledInput {
  /** Ids of snapshots that are deleted when the new one exists. */
  readonly dropped: readonly string[]
}

/**
 * Defines scheduled snapshots, which only the agent submits. When a new snapshot is submitted, the old snapshots that
 * will be deleted for it are hidden. If the new snapshot fails, they are shown again.
 */
export function scheduledSnapshotDefinition(
  context: GuestContext,
  { readDisk }: Pick<HostCapacity, 'readDisk'>,
): OperationDefinition<ScheduledInput> {
  const { store } = context
  return {
    action,
    steps: [roomStep(context, readDisk), takeStep(context), dropStep(context)],
    settle: ({ id, subject, input: { dropped } }, outcome) => {
      settleTaken(store, { uuid: subject.id, id, outcome })
      for (const left of dropped) updateSnapshot(store, subject.id, { id: left, state: 'ready' })
    },
  }
}

export function scheduledSnapshots(context: Pick<GuestContext, 'store' | 'now'>): ScheduledKind {
  const { store } = context
  return {
    what: 'snapshots',
    scheduleOf: ({ snapshotSchedule }) => snapshotSchedule,
    move: ({ uuid, snapshotSchedule }, nextRunMs) =>
      store.update(uuid, { snapshotSchedule: { ...snapshotSchedule, nextRunMs } }),
    subjectsOf: ({ uuid }) => [guestSubject(uuid)],
    orderOf: (record, run) => scheduledSnapshotOrder(context, record, run),
  }
}

/**
 * Returns the request for a guest's scheduled snapshot. If the guest's quota is used up, the operation fails.
 * @param run `nextRunMs`, the time of the following run, is stored together with the request
 */
function scheduledSnapshotOrder(
  { store, now }: Pick<GuestContext, 'store' | 'now'>,
  record: GuestRecord,
  { id, nextRunMs }: { readonly id: string; readonly nextRunMs: number },
): Submission {
  const { uuid, name, id: number, snapshots, snapshotSchedule } = record
  const { hasRoom, dropped } = planRotation({
    kept: snapshots,
    limit: record.snapshotLimit,
    retention: snapshotSchedule.retention,
  })
  const nowMs = now()
  const taken: SnapshotRecord = {
    id,
    createdAtMs: nowMs,
    createdBy: scheduleUser,
    scheduled: true,
    sizeBytes: 0,
    description: '',
    state: 'taking',
  }
  const going = snapshots.map((known): SnapshotRecord =>
    dropped.includes(known.id) ? { ...known, state: 'deleting' } : known,
  )
  return {
    id,
    action,
    input: { dropped },
    requestedBy: scheduleUser,
    subject: { ...guestSubject(uuid), name, number },
    reserve: () =>
      store.update(uuid, {
        snapshotSchedule: { ...snapshotSchedule, lastRunMs: nowMs, nextRunMs },
        ...(hasRoom ? { snapshots: [...going, taken] } : {}),
      }),
  }
}

function roomStep(context: DiskContext, readDisk: HostCapacity['readDisk']): Step<unknown> {
  const { store } = context
  return {
    name: 'room',
    run: async (step) => {
      const { operationId, subject } = step
      const { snapshots, snapshotLimit } = store.get(subject.id)
      if (!snapshots.some(({ id }) => id === operationId)) throw quotaExceeded(snapshotLimit, snapshots.length)
      refuseFull(await readDisk())
      while (!(await hasSpace(context, subject.id))) await dropOldest(context, step)
    },
  }
}

async function hasSpace(context: DiskContext, uuid: string): Promise<boolean> {
  const record = context.store.get(uuid)
  return (await readExpected(context.volumes, record)) <= planSpaceLimit(record)
}

/**
 * Deletes the oldest scheduled snapshot, because a new one would exceed the space limit. Waits until the kernel has
 * freed the space of the deleted snapshot. Otherwise a repeated call could delete a second snapshot needlessly.
 * @throws {BerthError} `snapshot_space_exceeded`
 */
async function dropOldest(
  context: DiskContext,
  { operationId, subject: { id: uuid }, signal }: StepContext<unknown>,
): Promise<void> {
  const record = context.store.get(uuid)
  const others = record.snapshots.filter(({ id }) => id !== operationId)
  const oldest = others.find(({ scheduled }) => scheduled)
  if (!oldest || isLastOfGuest(record, others))
    return refuseBeyondSpace(record, await readExpected(context.volumes, record))
  await deleteCounted(context, uuid, oldest.id)
  forgetSnapshot(context.store, uuid, oldest.id)
  if (!(await awaitSettled(context, uuid, signal)))
    refuseBeyondSpace(context.store.get(uuid), await readExpected(context.volumes, context.store.get(uuid)))
}

/**
 * True if the guest has only one snapshot left, and the space limit of snapshots is below the size of the disk. This
 * snapshot is kept, because its deletion might not free enough space for the next one.
 */
function isLastOfGuest(record: GuestRecord, others: readonly SnapshotRecord[]): boolean {
  return others.length === 1 && planSpaceLimit(record) < record.spec.limits.diskGb * gib
}

/** Deletes old snapshots. A failed deletion is not an error, because the next run deletes the snapshot. */
function dropStep(context: DiskContext): Step<ScheduledInput> {
  const { store } = context
  return {
    name: 'drop',
    run: async ({ subject, input, log }) => {
      for (const id of input.dropped) {
        try {
          await deleteCounted(context, subject.id, id)
          forgetSnapshot(store, subject.id, id)
        } catch (err) {
          log.warn(
            { err, snapshot: id },
            'an old snapshot could not be deleted: the next scheduled snapshot tries again',
          )
        }
      }
    },
  }
}

function settleTaken(
  store: GuestStore,
  { uuid, id, outcome }: { uuid: string; id: string; outcome: OperationOutcome },
): void {
  if (outcome.status === 'done') updateSnapshot(store, uuid, { id, state: 'ready' })
  else forgetSnapshot(store, uuid, id) // the guest's next snapshot deletes what this one left in the pool
}
