import type { BackupScheduleChange } from '../../../proto/gen/berth/agent/v1/network.js'
import type { BackupContext } from '../context.js'
import { type GuestRecord } from '../record/record.js'
import { checkBackupSchedule, planBackupSchedule } from '../schedule/backup-schedule.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'

type Context = ChangeContext & Pick<BackupContext, 'config' | 'targets'>

/**
 * Sets the guest's backup schedule and its target. The change itself deletes no backups. A request that contains only
 * the target of the schedule replaces the stored data of the target, for example its password.
 * @throws {BerthError} `invalid_field`, `missing_field`, and the errors of `changeGuest`
 */
export function setBackupSchedule(
  context: Context,
  target: Target,
  wanted: BackupScheduleChange,
): Promise<GuestRecord> {
  const { store } = context
  checkBackupSchedule(wanted)
  return changeGuest(context, target, {
    write: ({ uuid, backupSchedule: old }) => {
      store.update(uuid, { backupSchedule: planBackupSchedule(context, uuid, { old, wanted }) })
      return () => store.update(uuid, { backupSchedule: old })
    },
  })
}
