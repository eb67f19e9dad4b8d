import type { BackupScheduleChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { checkBackupTarget } from '../../../shared/backup-target-rules.js'
import { BerthError } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { limits } from '../../../shared/guest-rules.js'
import { createTimeFormat } from '../../../shared/time.js'
import type { BackupContext } from '../context.js'
import { noBackupSchedule, type BackupSchedule } from '../record/snapshots-and-backups.js'
import { checkRuns, planSchedule } from './plan-schedule.js'

/** @throws {BerthError} `invalid_field` */
export function checkBackupSchedule(wanted: BackupScheduleChange): BackupScheduleChange {
  checkRuns(wanted)
  if (wanted.retention !== undefined) checkInteger('retention', wanted.retention, limits.backups)
  if (wanted.target) checkBackupTarget(wanted.target)
  return wanted
}

interface Change {
  readonly old: Readonly<BackupSchedule>
  readonly wanted: BackupScheduleChange
}

/** Plans a change of the schedule, and encrypts its target. @throws {BerthError} `missing_field` */
export function planBackupSchedule(
  { targets, now, config }: Pick<BackupContext, 'config' | 'targets' | 'now'>,
  uuid: string,
  { old, wanted }: Change,
): BackupSchedule {
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
