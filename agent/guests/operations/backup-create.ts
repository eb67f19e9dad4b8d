import { checkDescription } from '../../../shared/field-checks.js'
import { conflict } from '../../../shared/errors.js'
import type { Asked, OperationKind } from '../../operations/orders.js'
import type { Step, StepContext } from '../../operations/types.js'
import { forgetBackup, reserveBackup, sentSnapshotId, updateBackup } from '../backups.js'
import { driverOf, type GuestContext } from '../context.js'
import type { GuestRecord } from '../record.js'
import { whileFrozen } from '../while-frozen.js'
import { backupSubject, parseTarget, repositoryOf, type TargetInput } from './backup-order.js'
import { guestSubject, refuseBroken } from './guest-order.js'

interface BackupInput extends TargetInput {
  description: string
}

/** What a target that fails is given to take back what it has. */
const takeBackMs = 60_000

/**
 * The backup has the operation's id. It is sent from a snapshot of the moment, while the guest goes on, and counts once
 * it was read back.
 */
export function backupCreateKind(context: GuestContext): OperationKind<'backupCreate', BackupInput> {
  const { store, now } = context
  return {
    action: 'backup-create',
    accept: ({ uuid, target, description }, asked) => {
      const subject = backupSubject(context, uuid)
      const input = {
        ...parseTarget(context, subject.id, target),
        description: checkDescription('description', description),
      }
      return {
        ...{ subject, input, hashOf: { targetId: input.targetId, description } },
        reserve: () => {
          const record = store.get(subject.id)
          checkSendable(record, asked)
          const { operationId: id, requestedBy: createdBy } = asked
          const { targetId } = input
          reserveBackup(store, record, { id, targetId, createdAtMs: now(), createdBy, description })
        },
      }
    },
    steps: [snapshotStep(context), sendStep(context), dropStep(context), verifyStep(context)],
    settle: ({ id, subject }, { status }) => {
      if (status === 'done') updateBackup(store, subject.id, { id, state: 'ready' })
      else forgetBackup(store, subject.id, id)
    },
  }
}

/** @throws {BerthError} `invalid_state` */
function checkSendable(record: GuestRecord, asked: Asked): void {
  refuseBroken(record)
  if (record.status === 'deleting' || asked.leaving(guestSubject(record.uuid)))
    throw conflict('invalid_state', 'the container is being deleted')
  if (record.status === 'creating') throw conflict('invalid_state', 'the container is being created')
}

/** Strays are left alone: what is being done with the guest at the same time may have snapshots of its own. */
function snapshotStep(context: GuestContext): Step<BackupInput> {
  const { store, volumes, turns, now } = context
  return {
    name: 'snapshot',
    run: async ({ operationId: id, subject: { id: uuid } }) => {
      const { made } = await turns.run(uuid, () =>
        whileFrozen(context, store.get(uuid), () => volumes.snapshot(uuid, sentSnapshotId(id))),
      )
      if (made) updateBackup(store, uuid, { id, createdAtMs: now() })
    },
    undo: async ({ operationId, subject: { id: uuid } }) => {
      const record = store.find(uuid)
      if (!record) return
      await driverOf(context, record).thaw(context.machineOf(record))
      await volumes.deleteSnapshot(uuid, sentSnapshotId(operationId))
    },
  }
}

function sendStep(context: GuestContext): Step<BackupInput> {
  const { store, volumes, backups } = context
  return {
    name: 'send',
    weight: 8,
    cancelable: true,
    run: async (step) => {
      const { operationId: id, subject, input } = step
      const { createdBy = '' } = store.get(subject.id).backups.find((backup) => backup.id === id) ?? {}
      const sent = await step.yieldWhile(
        backups.send(
          repositoryOf(context, subject.id, input),
          {
            ...{ id, tree: volumes.snapshotPathOf(subject.id, sentSnapshotId(id)) },
            note: { createdBy, description: input.description },
          },
          step,
        ),
      )
      updateBackup(store, subject.id, { id, ...sent })
    },
    undo: (step) => takeBack(context, step),
  }
}

/** A target that fails may not do that either; what it keeps then is in nobody's list, and goes with the next deletion. */
async function takeBack(
  { backups, ...context }: GuestContext,
  step: StepContext<BackupInput>,
): Promise<void> {
  const { operationId, subject, input, log } = step
  const signal = AbortSignal.any([step.signal, AbortSignal.timeout(takeBackMs)])
  try {
    const at = repositoryOf({ backups, ...context }, subject.id, input)
    await step.yieldWhile(backups.forget(at, operationId, { signal, report: () => undefined }))
  } catch (err) {
    step.signal.throwIfAborted()
    log.warn({ err }, 'take back what was sent')
  }
}

function dropStep({ volumes }: GuestContext): Step<BackupInput> {
  return {
    name: 'drop',
    run: async ({ operationId, subject }) =>
      void (await volumes.deleteSnapshot(subject.id, sentSnapshotId(operationId))),
  }
}

function verifyStep(context: GuestContext): Step<BackupInput> {
  const { store, backups, now } = context
  return {
    name: 'verify',
    weight: 3,
    cancelable: true,
    run: async (step) => {
      const { operationId: id, subject, input } = step
      const at = repositoryOf(context, subject.id, input)
      await step.yieldWhile(backups.verify(at, at.target.verifyPercent, step))
      updateBackup(store, subject.id, { id, verifiedAtMs: now() })
    },
  }
}
