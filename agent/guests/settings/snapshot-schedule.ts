import { invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { createTimeFormat } from '../../../shared/time.js'
import { limits, timeOfDayPattern } from '../../../shared/guest-rules.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { planSchedule, type ScheduleChange } from '../schedule/plan-schedule.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

const timeOfDay = new RegExp(timeOfDayPattern)

/**
 * Sets the guest's snapshot schedule. The change itself deletes no snapshots.
 * @throws {BerthError} `invalid_field`, `missing_field`, and the errors of `changeGuest`
 */
export function setSnapshotSchedule(
  context: ChangeContext & Pick<GuestContext, 'config'>,
  target: Target,
  wanted: ScheduleChange,
): Promise<GuestRecord> {
  const { store, now } = context
  const time = createTimeFormat(context.config.time_zone)
  checkRuns(wanted)
  if (wanted.retention !== undefined) checkInteger('retention', wanted.retention, limits.snapshots)
  return changeGuest(context, target, {
    write: ({ uuid, snapshotSchedule: old }) => {
      const snapshotSchedule = planSchedule(old, wanted, { nowMs: now(), time })
      store.update(uuid, { snapshotSchedule })
      return () => store.update(uuid, { snapshotSchedule: old })
    },
  })
}

/** Checks the interval and the time of day. @throws {BerthError} `invalid_field` */
export function checkRuns({ intervalHours, time }: Pick<ScheduleChange, 'intervalHours' | 'time'>): void {
  if (intervalHours !== undefined) checkInteger('interval_hours', intervalHours, limits.snapshotIntervalHours)
  if (time !== undefined && !timeOfDay.test(time))
    throw invalidField('time', 'time: must be a time of day, for example "03:30"')
}
