import type { Step, StepContext } from '../../operations/types.js'
import { sentSnapshotId, updateBackup } from '../snapshots/backups.js'
import type { BackupContext } from '../context.js'
import { takeHidden } from '../snapshots/snapshot-space.js'
import { thawGuest } from '../snapshots/thaw.js'
import { whileFrozen } from '../snapshots/while-frozen.js'
import { encodeSettings, recordFirewall } from '../snapshots/backup-settings.js'
import { repositoryOf, type TargetInput } from './backup-order.js'
import { planUsedBytes } from './plan-restore-room.js'

export interface BackupInput extends TargetInput {
  description: string
}

/** Timeout in ms of the removal of a failed backup's data. The timeout is short, because the target can be failing. */
const takeBackMs = 60_000

/** Returns the steps that create the reserved backup. The backup is valid after its verification. */
export function backupSteps(context: BackupContext): Step<BackupInput>[] {
  return [snapshotStep(context), sendStep(context), dropStep(context), verifyStep(context)]
}

/** Takes the snapshot to send. Does not call `removeStrays`, because other operations can have unrecorded snapshots. */
function snapshotStep(context: BackupContext): Step<unknown> {
  const { store, volumes, now } = context
  return {
    name: 'snapshot',
    run: async ({ operationId: id, subject: { id: uuid } }) => {
      const { made, sizeBytes } = await store.mutex.run(uuid, () =>
        whileFrozen(context, store.get(uuid), () => takeHidden(context, uuid, sentSnapshotId(id))),
      )
      const record = store.get(uuid)
      const limitBytes = context.machines.driverOf(record).volumeLimitBytes(context.machines.of(record))
      const bounds = { limitBytes, extraBytes: record.extraBytes }
      const used = sizeBytes === undefined ? {} : { usedBytes: planUsedBytes(sizeBytes, bounds) }
      if (made) updateBackup(store, uuid, { id, createdAtMs: now(), ...used })
    },
    undo: async ({ operationId, subject: { id: uuid } }) => {
      const record = store.find(uuid)
      if (!record) return
      await thawGuest(context, record)
      await volumes.deleteSnapshot(uuid, sentSnapshotId(operationId))
    },
  }
}

function sendStep(context: BackupContext): Step<BackupInput> {
  const { store, volumes, backups } = context
  return {
    name: 'send',
    weight: 8,
    cancelable: () => true,
    run: async (step) => {
      const { operationId: id, subject, input } = step
      const known = store.get(subject.id).backups.find((backup) => backup.id === id)
      const { createdBy = '', scheduled = false, usedBytes } = known ?? {}
      const { templateId, virtualization } = store.get(subject.id).spec
      const { resolvers } = context.machines.of(store.get(subject.id))
      const used = usedBytes === undefined ? {} : { usedBytes }
      const sent = await step.yieldWhile(
        backups.send(
          repositoryOf(context.targets, subject.id, input),
          {
            id,
            tree: volumes.snapshotPathOf(subject.id, sentSnapshotId(id)),
            note: {
              createdBy,
              scheduled,
              description: input.description,
              templateId,
              virtualization,
              resolvers,
              settings: encodeSettings(store.get(subject.id)),
              ...recordFirewall(store.get(subject.id)),
              ...used,
            },
          },
          step,
        ),
      )
      updateBackup(store, subject.id, { id, ...sent })
    },
    undo: (step) => takeBack(context, step),
  }
}

/** Removes the data of a failed backup. If this fails, a later deletion of another backup frees the space. */
async function takeBack(
  { backups, targets }: Pick<BackupContext, 'backups' | 'targets'>,
  step: StepContext<BackupInput>,
): Promise<void> {
  const { operationId, subject, input, log } = step
  const signal = AbortSignal.any([step.signal, AbortSignal.timeout(takeBackMs)])
  try {
    const at = repositoryOf(targets, subject.id, input)
    await step.yieldWhile(backups.forget(at, operationId, { signal, report: () => undefined }))
  } catch (err) {
    step.signal.throwIfAborted()
    log.warn({ err }, 'the data of the failed backup could not be deleted from the target')
  }
}

function dropStep({ volumes }: Pick<BackupContext, 'volumes'>): Step<unknown> {
  return {
    name: 'drop',
    run: async ({ operationId, subject }) =>
      void (await volumes.deleteSnapshot(subject.id, sentSnapshotId(operationId))),
  }
}

function verifyStep(context: BackupContext): Step<BackupInput> {
  const { store, backups, now } = context
  return {
    name: 'verify',
    weight: 3,
    cancelable: () => true,
    run: async (step) => {
      const { operationId: id, subject, input } = step
      const at = repositoryOf(context.targets, subject.id, input)
      await step.yieldWhile(backups.verify(at, at.target.verifyPercent, step))
      updateBackup(store, subject.id, { id, verifiedAtMs: now() })
    },
  }
}
