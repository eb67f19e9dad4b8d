import { invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { limits, timeOfDayPattern } from '../../../shared/guest-rules.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record.js'
import { planSchedule, type ScheduleChange } from '../schedule/plan-schedule.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

const timeOfDay = new RegExp(timeOfDayPattern)

/**
 * When snapshots are taken of the guest by itself; what is there stays until the next run.
 * @throws {BerthError} `invalid_field`, `missing_field`, and those of `changeGuest`
 */
export function setSnapshotSchedule(
  context: ChangeContext & Pick<GuestContext, 'time'>,
  target: Target,
  wanted: ScheduleChange,
): Promise<GuestRecord> {
  const { store, now, time } = context
  checkChange(wanted)
  return changeGuest(context, target, {
    write: ({ uuid, snapshotSchedule: old }) => {
      const snapshotSchedule = planSchedule(old, wanted, { nowMs: now(), time })
      store.update(uuid, { snapshotSchedule })
      return () => store.update(uuid, { snapshotSchedule: old })
    },
  })
}

function checkChange({ intervalHours, time, retention }: ScheduleChange): void {
  if (intervalHours !== undefined) checkInteger('interval_hours', intervalHours, limits.snapshotIntervalHours)
  if (retention !== undefined) checkInteger('retention', retention, limits.snapshots)
  if (time !== undefined && !timeOfDay.test(time))
    throw invalidField('time', 'time: must be a time of day, for example "03:30"')
}
