/** Body of the request for a schedule of snapshots or backups. */
export interface ScheduleBody {
  readonly enabled: boolean
  readonly interval_hours: number
  readonly time: string
  readonly retention: number
  /** Id of the backup target. Absent: the schedule is for snapshots. */
  readonly target_id?: string
}
