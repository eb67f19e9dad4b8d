import { checkInteger } from '../../../shared/field-checks.js'
import { createTimeFormat } from '../../../shared/time.js'
import { limits } from '../../../shared/guest-rules.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { checkRuns, planSchedule, type ScheduleChange } from '../schedule/plan-schedule.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

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
