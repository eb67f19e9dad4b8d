/** A snapshot of a guest's volume, as recorded in the journal. */
export interface SnapshotRecord {
  /** Id of the operation that took the snapshot. The volume's snapshot has the same name. */
  id: string
  createdAtMs: number
  createdBy: string
  scheduled: boolean
  /** Bytes that counted towards the guest's disk limit when the snapshot was taken. 0: not known. */
  sizeBytes: number
  description: string
  /** Only `ready` snapshots are shown. Snapshots in other states belong to operations that can still fail. */
  state: 'taking' | 'ready' | 'deleting'
}

/** Space that the snapshots of a guest retain in the pool (docs/design/storage.md). */
export interface SnapshotSpace {
  /** Maximum bytes that all snapshots together can retain; 0 means the default, a multiple of the disk size. */
  limitBytes: number
  /** Upper bound of the bytes that all snapshots together retain. */
  retainedBytes: number
  /** Bytes by which the disk limit is raised: for `retainedBytes`, hidden snapshots, and space that is being freed. */
  allowanceBytes: number
  /** False if the guest was created by a version that did not measure the space. */
  isMeasured: boolean
}

export const unmeasuredSpace: Readonly<SnapshotSpace> = {
  limitBytes: 0,
  retainedBytes: 0,
  allowanceBytes: 0,
  isMeasured: false,
}

/** Schedule of a guest's automatic snapshots, which agent/guests/schedule carries out. */
export interface SnapshotSchedule {
  enabled: boolean
  /** Hours between two runs; 0 if the schedule was never set. */
  intervalHours: number
  /** Time of day of the first run, `HH:MM` in the host's time zone; empty if the schedule was never set. */
  time: string
  /** Number of scheduled snapshots that are retained; 0 means the guest's snapshot limit. */
  retention: number
  /**
   * A day with a run at `time`, `YYYY-MM-DD` in the host's time zone. The time between this run and any other run is a
   * multiple of the interval. Empty: the schedule is off.
   */
  firstDay: string
  createdBy: string
  /** Time of the last run; 0 if the schedule has never run. */
  lastRunMs: number
  /** Time of the next run; 0 if the schedule is off. */
  nextRunMs: number
}

export const noSchedule: Readonly<SnapshotSchedule> = {
  enabled: false,
  intervalHours: 0,
  time: '',
  retention: 0,
  firstDay: '',
  createdBy: '',
  lastRunMs: 0,
  nextRunMs: 0,
}

/** Schedule of a guest's automatic backups, with their target. `retention` only counts backups at this target. */
export interface BackupSchedule extends SnapshotSchedule {
  targetId: string
  /** Time at which the stored target last changed. The gateway uses it to detect that the stored target is outdated. */
  targetChangedAtMs: number
  /** Encrypted target. Empty: the target was never set. */
  target: string
}

export const noBackupSchedule: Readonly<BackupSchedule> = {
  ...noSchedule,
  targetId: '',
  targetChangedAtMs: 0,
  target: '',
}

/** A backup: a state of the guest's volume that is stored at a backup target. */
export interface BackupRecord {
  /** Id of the operation that created the backup. The target uses the same id. */
  id: string
  targetId: string
  createdAtMs: number
  createdBy: string
  scheduled: boolean
  /** Total length in bytes of all files in the backup. */
  sizeBytes: number
  /** Bytes that counted towards the guest's disk limit when the backup was created; undefined if they are not known. */
  usedBytes?: number
  /** Bytes that the target had to store for the backup. */
  storedBytes: number
  /** Time of the last verification; 0 if the backup was never verified. */
  verifiedAtMs: number
  description: string
  /** State of the backup. The values have the same meaning as for a snapshot. */
  state: 'taking' | 'ready' | 'deleting'
}
