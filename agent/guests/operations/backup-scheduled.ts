import { limits } from '../../../shared/guest-rules.js'
import type { StoredBackup } from '../../backups/contract.js'
import type { Submission } from '../../operations/submission.js'
import type { OperationDefinition, Step } from '../../operations/types.js'
import { backupsExceeded, forgetBackup, updateBackup } from '../snapshots/backups.js'
import type { BackupContext, GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import type { BackupRecord } from '../record/snapshots-and-backups.js'
import { planRotation } from '../schedule/plan-rotation.js'
import type { ScheduledKind } from '../schedule/scheduler.js'
import { backupSubject, repositoryOf } from './backup-order.js'
import { backupSteps, type BackupInput } from './backup-steps.js'
import { guestSubject } from './guest-order.js'
import { scheduleUser } from './snapshot-scheduled.js'

const action = 'backup-scheduled'

interface ScheduledInput extends BackupInput {
  /** Ids of backups that are deleted when the new one has been verified. */
  readonly dropped: readonly string[]
  readonly retention: number
}

/**
 * Defines scheduled backups, which only the agent submits. When a new backup is submitted, the old backups that it will
 * replace are hidden. If the new backup fails, they are shown again.
 */
export function scheduledBackupDefinition(context: BackupContext): OperationDefinition<ScheduledInput> {
  const { store } = context
  return {
    action,
    steps: [roomStep(context), ...backupSteps(context), rotateStep(context)],
    settle: ({ id, subject: { id: uuid }, input: { dropped } }, { status }) => {
      if (status === 'done') updateBackup(store, uuid, { id, state: 'ready' })
      else forgetBackup(store, uuid, id)
      for (const left of dropped) updateBackup(store, uuid, { id: left, state: 'ready' })
    },
  }
}

export function scheduledBackups(context: Pick<GuestContext, 'store' | 'now'>): ScheduledKind {
  const { store } = context
  return {
    what: 'backups',
    scheduleOf: ({ backupSchedule }) => backupSchedule,
    move: ({ uuid, backupSchedule }, nextRunMs) =>
      store.update(uuid, { backupSchedule: { ...backupSchedule, nextRunMs } }),
    subjectsOf: ({ uuid }) => [guestSubject(uuid), backupSubject(context, uuid)],
    orderOf: (record, run) => scheduledBackupOrder(context, record, run),
  }
}

/** Returns the request for the scheduled backup. If the guest's quota of backups is used up, the operation fails. */
function scheduledBackupOrder(
  context: Pick<GuestContext, 'store' | 'now'>,
  record: GuestRecord,
  { id, nextRunMs }: { readonly id: string; readonly nextRunMs: number },
): Submission {
  const { uuid, backups, backupSchedule } = record
  const { targetId, target, retention } = backupSchedule
  const { hasRoom, dropped } = planDropped(record)
  const nowMs = context.now()
  const taken: BackupRecord = {
    id,
    targetId,
    createdAtMs: nowMs,
    createdBy: scheduleUser,
    scheduled: true,
    description: '',
    sizeBytes: 0,
    storedBytes: 0,
    verifiedAtMs: 0,
    state: 'taking',
  }
  const going = backups.map((known): BackupRecord =>
    dropped.includes(known.id) ? { ...known, state: 'deleting' } : known,
  )
  const input: ScheduledInput = { targetId, target, description: '', dropped, retention }
  return {
    id,
    action,
    input,
    requestedBy: scheduleUser,
    subject: backupSubject(context, uuid),
    reserve: () =>
      context.store.update(uuid, {
        backupSchedule: { ...backupSchedule, lastRunMs: nowMs, nextRunMs },
        ...(hasRoom ? { backups: [...going, taken] } : {}),
      }),
  }
}

/** Chooses backups at the schedule's target to delete. The limit also counts backups at other targets. */
function planDropped({ backups, backupSchedule: { targetId, retention } }: GuestRecord) {
  const kept = backups.filter((backup) => backup.targetId === targetId)
  const elsewhere = backups.length - kept.length
  return planRotation({ kept, limit: limits.backups.max - elsewhere, retention })
}

function roomStep({ store }: Pick<BackupContext, 'store'>): Step<unknown> {
  return {
    name: 'room',
    run: async ({ operationId, subject }) => {
      const { backups } = store.get(subject.id)
      if (!backups.some(({ id }) => id === operationId)) throw backupsExceeded(backups.length)
    },
  }
}

/** Deletes old backups. A failure of the backup target is only logged, because the next run tries again. */
function rotateStep(context: Pick<BackupContext, 'store' | 'backups' | 'targets'>): Step<ScheduledInput> {
  const { store, backups } = context
  return {
    name: 'rotate',
    run: async (step) => {
      const { subject, input, log } = step
      const at = repositoryOf(context.targets, subject.id, input)
      const forget = async (id: string): Promise<void> => {
        await step.yieldWhile(backups.forget(at, id, step))
        forgetBackup(store, subject.id, id)
      }
      try {
        for (const id of input.dropped) await forget(id)
        const kept = await step.yieldWhile(backups.list(at, step))
        for (const { id } of planExcess(kept, input.retention)) await forget(id)
      } catch (err) {
        step.signal.throwIfAborted()
        log.warn({ err }, 'an old backup could not be deleted: the next scheduled backup tries again')
      }
    },
  }
}

/**
 * Returns the scheduled backups that exceed the retention.
 * @param kept backups at the backup target, oldest first; the agent's own list lacks backups that it failed to delete
 */
export function planExcess(kept: readonly StoredBackup[], retention: number): readonly StoredBackup[] {
  const scheduled = kept.filter((backup) => backup.scheduled)
  return retention === 0 ? [] : scheduled.slice(0, Math.max(0, scheduled.length - retention))
}
