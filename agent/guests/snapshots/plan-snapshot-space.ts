import { conflict } from '../../../shared/errors.js'
import type { GuestRecord } from '../record/record.js'
import type { SnapshotRecord, SnapshotSpace } from '../record/snapshots-and-backups.js'

const gib = 1024 ** 3

/** Default limit as a multiple of the disk size: enough for a snapshot of a full disk and one complete rewrite. */
export const defaultSpaceDisks = 2

type SpaceSettings = Pick<GuestRecord, 'snapshotSpace' | 'spec'>

/** Returns the maximum bytes that all snapshots of a guest together are allowed to retain. */
export function planSpaceLimit({ snapshotSpace, spec }: SpaceSettings): number {
  return snapshotSpace.limitBytes || defaultSpaceDisks * spec.limits.diskGb * gib
}

/**
 * Returns an upper bound of the bytes that the snapshots of a guest retain. If an older version created the guest and
 * the space was never measured, the bound is an estimate.
 */
export function planRetained({ snapshotSpace, snapshots }: Pick<GuestRecord, 'snapshotSpace' | 'snapshots'>) {
  if (snapshotSpace.isMeasured) return snapshotSpace.retainedBytes
  return Math.max(0, ...snapshots.map(({ sizeBytes }) => sizeBytes))
}

/** Returns the bytes by which the guest's disk limit is raised, so that snapshots take no space from its disk. */
export function planAllowance(record: Pick<GuestRecord, 'snapshotSpace' | 'snapshots'>): number {
  return record.snapshotSpace.isMeasured ? record.snapshotSpace.allowanceBytes : planRetained(record)
}

/**
 * Refuses a snapshot beyond the space limit.
 * @param expectedBytes bytes that all snapshots would retain, including the new one
 * @throws {BerthError} `snapshot_space_exceeded`
 */
export function refuseBeyondSpace(record: SpaceSettings, expectedBytes: number): void {
  const limitBytes = planSpaceLimit(record)
  if (expectedBytes <= limitBytes) return
  const message =
    `the snapshots would retain ${toGb(expectedBytes)} GB, but the limit is ${toGb(limitBytes)} GB:` +
    ' delete a snapshot first, or ask for a higher limit'
  throw conflict('snapshot_space_exceeded', message)
}

/**
 * Returns the bytes by which the disk limit is raised right after a snapshot: the measured bytes, up to a maximum. The
 * maximum is the disk size plus the space limit of snapshots, or plus the retained bytes if these are more.
 */
export function planRaised(record: GuestRecord, { measured, diskBytes }: { measured: number; diskBytes: number }) {
  const highest = Math.max(planSpaceLimit(record), planRetained(record)) + diskBytes
  return Math.min(measured, highest)
}

export interface SpaceMeasurement {
  /** Existing snapshots of the guest on the host. */
  readonly present: readonly SnapshotRecord[]
  /** Bytes that count towards the guest's disk limit now. They include all bytes that the guest's snapshots retain. */
  readonly usageBytes: number
  /** True if the host's quotas count the data of snapshots towards the guest's disk limit. */
  readonly snapshotsCount: boolean
}

/** Computes the maximum bytes that the guest's snapshots retain after the space of deleted snapshots has been freed. */
export function planSettled(
  record: GuestRecord,
  { present, usageBytes, snapshotsCount }: SpaceMeasurement,
): SnapshotSpace {
  const { limitBytes } = record.snapshotSpace
  // `sizeBytes` of the newest snapshot: the bytes that all snapshots together retained when it was taken.
  const sizes = snapshotsCount ? present.slice(-1).flatMap(({ sizeBytes }) => sizeBytes || []) : []
  const bounded = Math.min(planRetained(record), usageBytes, ...sizes)
  const retainedBytes = present.length === 0 ? 0 : bounded
  return { limitBytes, retainedBytes, allowanceBytes: snapshotsCount ? retainedBytes : 0, isMeasured: true }
}

/**
 * Returns the bytes by which the snapshot of a warm standby raises the disk limit until the next increment. It retains
 * at most the data that the disk had when it was taken.
 */
export function planHeld({ diskBytes, takenBytes }: { diskBytes: number; takenBytes: number }): number {
  return takenBytes > 0 ? Math.min(diskBytes, takenBytes) : diskBytes
}

const toGb = (bytes: number): string => (bytes / gib).toFixed(2)
