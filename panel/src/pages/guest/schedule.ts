/** Body of the request for a schedule of snapshots or backups. */
export interface ScheduleBody {
  readonly enabled: boolean
  readonly interval_hours: number
  readonly time: string
  readonly retention: number
  /** Id of the backup target. Absent: the schedule is for snapshots. */
  readonly target_id?: string
}

/** Schedule of a guest, as the API returns it. Only backups have a target. */
export interface SavedSchedule {
  readonly enabled: boolean
  /** 0: the schedule was never set. */
  readonly interval_hours: number
  readonly time: string
  readonly retention: number
  readonly target_id?: string
}

/** True if the backup target of the schedule was removed. */
export function lacksTarget({ target_id: id = '' }: SavedSchedule, targetIds: readonly string[]): boolean {
  return id !== '' && !targetIds.includes(id)
}

/**
 * Returns the initial content of the form. It proposes values only for a schedule that was never set, because the user
 * must enable such a schedule to save it. A target that was removed is not replaced: the user selects another one.
 */
export function scheduleForm(saved: SavedSchedule, targetIds: readonly string[]) {
  const wasSet = saved.interval_hours > 0
  const target = saved.target_id || (targetIds[0] ?? '')
  return {
    enabled: saved.enabled,
    hours: wasSet ? saved.interval_hours : 24,
    time: saved.time || '03:00',
    retention: wasSet ? saved.retention : 3,
    target: lacksTarget(saved, targetIds) ? '' : target,
  }
}
