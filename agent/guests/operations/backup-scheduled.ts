import { limits } from '../../../shared/guest-rules.js'
import type { StoredBackup } from '../../backups/contract.js'
import type { Submission } from '../../operations/submission.js'
import type { OperationDefinition, Step } from '../../operations/types.js'
import { backupsExceeded, forgetBackup, updateBackup } from '../snapshots/backups.js'
import type { GuestContext } from '../context.js'
import type { BackupRecord, GuestRecord } from '../record/record.js'
import { planRotation } from '../schedule/plan-rotation.js'
import type { ScheduledKind } from '../schedule/scheduler.js'
import { backupSubject, repositoryOf } from './backup-order.js'
import { backupSteps, type BackupInput } from './backup-steps.js'
import { guestSubject } from './guest-order.js'
import { scheduleUser } from './snapshot-scheduled.js'

const action = 'backup-scheduled'

interface ScheduledInput extends BackupInput {
  /** Backups that go once the new one was read back. */
  readonly dropped: readonly string[]
  readonly retention: number
}

/**
 * A backup by the guest's schedule: a task of its own that only the agent orders. From its order on nobody sees those
 * that it drops; where the new one is not made they are back.
 */
export function scheduledBackupDefinition(context: GuestContext): OperationDefinition<ScheduledInput> {
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

export function scheduledBackups(context: GuestContext): ScheduledKind {
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

/** Of the next backup by schedule. It is taken also where there is no place for one: the task says so. */
function scheduledBackupOrder(
  context: GuestContext,
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

/** What is at other targets takes room, and stays. */
function planDropped({ backups, backupSchedule: { targetId, retention } }: GuestRecord) {
  const kept = backups.filter((backup) => backup.targetId === targetId)
  const elsewhere = backups.length - kept.length
  return planRotation({ kept, limit: limits.backups.max - elsewhere, retention })
}

function roomStep({ store }: GuestContext): Step<unknown> {
  return {
    name: 'room',
    run: async ({ operationId, subject }) => {
      const { backups } = store.get(subject.id)
      if (!backups.some(({ id }) => id === operationId)) throw backupsExceeded(backups.length)
    },
  }
}

/** One that the target does not delete now fails nothing: the next run drops it. */
function rotateStep(context: GuestContext): Step<ScheduledInput> {
  const { store, backups } = context
  return {
    name: 'rotate',
    run: async (step) => {
      const { subject, input, log } = step
      const at = repositoryOf(context, subject.id, input)
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
        log.warn({ err }, 'drop a backup')
      }
    },
  }
}

/**
 * By the schedule, beyond its retention, of what the target itself says it has: what it did not take back of a run that
 * failed is in no list of ours.
 * @param kept oldest first
 */
export function planExcess(kept: readonly StoredBackup[], retention: number): readonly StoredBackup[] {
  const scheduled = kept.filter((backup) => backup.scheduled)
  return retention === 0 ? [] : scheduled.slice(0, Math.max(0, scheduled.length - retention))
}
