import { conflict } from '../../shared/errors.js'
import type { GuestRecord, SnapshotRecord, SnapshotSpace } from './record.js'

const gib = 1024 ** 3

/** Default limit, in sizes of the disk: a snapshot of a full disk, and one rewrite of all of it. */
export const defaultSpaceDisks = 2

type Sized = Pick<GuestRecord, 'snapshotSpace' | 'spec'>

/** Bytes that the snapshots of a guest may retain together. */
export function planSpaceLimit({ snapshotSpace, spec }: Sized): number {
  return snapshotSpace.limitBytes || defaultSpaceDisks * spec.limits.diskGb * gib
}

/** Bytes that the snapshots of a guest retain at most; estimated for guests of a version that did not measure. */
export function planRetained({ snapshotSpace, snapshots }: Pick<GuestRecord, 'snapshotSpace' | 'snapshots'>) {
  if (snapshotSpace.isMeasured) return snapshotSpace.retainedBytes
  return Math.max(0, ...snapshots.map(({ sizeBytes }) => sizeBytes))
}

/** By how much the limit of the guest's disk is raised, so that snapshots do not consume what was sold. */
export function planAllowance(record: Pick<GuestRecord, 'snapshotSpace' | 'snapshots'>): number {
  return record.snapshotSpace.isMeasured ? record.snapshotSpace.allowanceBytes : planRetained(record)
}

/** @param expectedBytes that snapshots would retain with the new one @throws {BerthError} `snapshot_space_exceeded` */
export function refuseBeyondSpace(record: Sized, expectedBytes: number): void {
  const limitBytes = planSpaceLimit(record)
  if (expectedBytes <= limitBytes) return
  const message =
    `the snapshots would retain ${toGb(expectedBytes)} GB, and the limit is ${toGb(limitBytes)} GB:` +
    ' delete a snapshot first, or ask for a higher limit'
  throw conflict('snapshot_space_exceeded', message)
}

/**
 * The allowance right after a snapshot. A guest within its size retains at most one disk more than its snapshots did: what a
 * guest beyond its size wrote is no reason to raise its limit further.
 */
export function planRaised(
  record: GuestRecord,
  { measured, diskBytes }: { measured: number; diskBytes: number },
) {
  const highest = Math.max(planSpaceLimit(record), planRetained(record)) + diskBytes
  return Math.min(measured, highest)
}

export interface Measured {
  /** Snapshots of the guest that exist on the host. */
  readonly present: readonly SnapshotRecord[]
  /** What counts for the guest now: never less than what its snapshots retain. */
  readonly usageBytes: number
  /** Whether what snapshots retain counts towards the limit of the disk. */
  readonly snapshotsCount: boolean
}

/** What snapshots retain once the space of deleted ones is free, as far as it is known. Never too little. */
export function planSettled(
  record: GuestRecord,
  { present, usageBytes, snapshotsCount }: Measured,
): SnapshotSpace {
  const { limitBytes } = record.snapshotSpace
  // A snapshot's size is what all that existed when it was taken retained.
  const sizes = snapshotsCount ? present.slice(-1).flatMap(({ sizeBytes }) => sizeBytes || []) : []
  const bounded = Math.min(planRetained(record), usageBytes, ...sizes)
  const retainedBytes = present.length === 0 ? 0 : bounded
  return { limitBytes, retainedBytes, allowanceBytes: snapshotsCount ? retainedBytes : 0, isMeasured: true }
}

const toGb = (bytes: number): string => (bytes / gib).toFixed(2)
