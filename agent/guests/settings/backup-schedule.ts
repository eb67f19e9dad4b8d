import type { BackupScheduleChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { checkBackupTarget } from '../../../shared/backup-target-rules.js'
import { BerthError } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { limits } from '../../../shared/guest-rules.js'
import { createTimeFormat } from '../../../shared/time.js'
import type { BackupContext } from '../context.js'
import { type GuestRecord } from '../record/record.js'
import { noBackupSchedule, type BackupSchedule } from '../record/snapshots-and-backups.js'
import { planSchedule } from '../schedule/plan-schedule.js'
import { changeGuest, type ChangeContext, type Target } from './change.js'
import { checkRuns } from './snapshot-schedule.js'

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
  checkRuns(wanted)
  if (wanted.retention !== undefined) checkInteger('retention', wanted.retention, limits.backups)
  if (wanted.target) checkBackupTarget(wanted.target)
  return changeGuest(context, target, {
    write: ({ uuid, backupSchedule: old }) => {
      store.update(uuid, { backupSchedule: planChange(context, uuid, { old, wanted }) })
      return () => store.update(uuid, { backupSchedule: old })
    },
  })
}

interface Change {
  readonly old: Readonly<BackupSchedule>
  readonly wanted: BackupScheduleChange
}

function planChange({ targets, now, config }: Context, uuid: string, { old, wanted }: Change): BackupSchedule {
  const { target, targetChangedAtMs, forgetTarget, createdBy, enabled, intervalHours, retention } = wanted
  if (forgetTarget) return { ...old, ...withoutTarget }
  const isOfTarget = enabled === undefined
  if (isOfTarget && target && (target.id !== old.targetId || targetChangedAtMs < old.targetChangedAtMs)) return old
  const place = target ? { targetId: target.id, targetChangedAtMs, target: targets.seal(uuid, target) } : {}
  const change = { enabled, intervalHours, retention, time: wanted.time, createdBy: createdBy || old.createdBy }
  const schedule = planSchedule({ ...old, ...place }, change, {
    nowMs: now(),
    time: createTimeFormat(config.time_zone),
  })
  if (schedule.enabled && schedule.target === '')
    throw new BerthError('invalid', 'missing_field', 'target_id: is required', { field: 'target_id' })
  return schedule
}

const { targetId, targetChangedAtMs, target } = noBackupSchedule
const withoutTarget = { enabled: false, firstDay: '', nextRunMs: 0, targetId, targetChangedAtMs, target }
