/** A snapshot of the guest's volume. */
export interface SnapshotRecord {
  /** Same as the id of the operation that took it and the name of the volume's snapshot. */
  id: string
  createdAtMs: number
  createdBy: string
  /** True if a schedule created it. */
  scheduled: boolean
  /** Bytes that counted towards the guest's disk limit when it was taken; 0: unknown. */
  sizeBytes: number
  description: string
  /** Only `ready` snapshots are shown. For the others, an operation is about to find out whether they exist. */
  state: 'taking' | 'ready' | 'deleting'
}

/** Space that the snapshots of a guest retain in the pool: docs/design/storage.md. */
export interface SnapshotSpace {
  /** Limit of the space that all snapshots together may retain; 0: the default, a multiple of the disk size. */
  limitBytes: number
  /** Upper bound of the space that all snapshots together retain. */
  retainedBytes: number
  /**
   * Bytes by which the limit of the disk is raised: `retainedBytes`, hidden snapshots, and space that is being freed.
   */
  allowanceBytes: number
  /** False: the guest was created by a version that did not measure the space. */
  isMeasured: boolean
}

export const unmeasuredSpace: Readonly<SnapshotSpace> = {
  limitBytes: 0,
  retainedBytes: 0,
  allowanceBytes: 0,
  isMeasured: false,
}

/** Schedule of a guest's automatic snapshots; agent/guests/schedule implements it. */
export interface SnapshotSchedule {
  enabled: boolean
  /** 0: never set. */
  intervalHours: number
  /** `HH:MM` in the host's time zone, of the first run; empty: never set. */
  time: string
  /** Number of scheduled snapshots that are retained; 0: as many as the guest may have. */
  retention: number
  /**
   * `YYYY-MM-DD` in the host's time zone. One run is at `time` of this day, and the others are whole intervals away;
   * empty: off.
   */
  firstDay: string
  /** User who set the schedule. */
  createdBy: string
  /** 0: not yet. */
  lastRunMs: number
  /** 0: it is off. */
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

/** Schedule of a guest's automatic backups, and their target. The retention counts backups at the target. */
export interface BackupSchedule extends SnapshotSchedule {
  targetId: string
  /** Time of the last change of the sealed target, by which the gateway detects an outdated one. */
  targetChangedAtMs: number
  /** Encrypted target; empty: never set. */
  target: string
}

export const noBackupSchedule: Readonly<BackupSchedule> = {
  ...noSchedule,
  targetId: '',
  targetChangedAtMs: 0,
  target: '',
}

/** A state of the guest's volume that is stored at a backup target. */
export interface BackupRecord {
  /** Id of the operation that created it; the target uses the same id. */
  id: string
  targetId: string
  createdAtMs: number
  createdBy: string
  /** True if a schedule created it. */
  scheduled: boolean
  /** Total length of all files in it. */
  sizeBytes: number
  /** Bytes that counted for the guest's disk at that time; absent: not known. */
  usedBytes?: number
  /** Bytes that the target had to store for it. */
  storedBytes: number
  /** 0: not yet. */
  verifiedAtMs: number
  description: string
  /** Same states as for a snapshot. */
  state: 'taking' | 'ready' | 'deleting'
}
