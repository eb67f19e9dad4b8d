/** Body of the request for a schedule of snapshots or backups. */
export interface ScheduleBody {
  readonly enabled: boolean
  readonly interval_hours: number
  readonly time: string
  readonly retention: number
  /** Only for backups. */
  readonly target_id?: string
}
