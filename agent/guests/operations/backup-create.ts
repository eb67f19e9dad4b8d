import { checkDescription } from '../../../shared/field-checks.js'
import { conflict } from '../../../shared/errors.js'
import type { OrderContext, OperationKind } from '../../operations/orders.js'
import { forgetBackup, reserveBackup, updateBackup } from '../snapshots/backups.js'
import type { BackupContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { backupSubject, parseBackupTarget } from './backup-order.js'
import { backupSteps, type BackupInput } from './backup-steps.js'
import { refuseDeleted } from '../deletion/plan-deletion.js'
import { guestSubject, refuseBroken } from './guest-order.js'

/**
 * Creates a backup, which has the operation's id. The data is sent from a snapshot while the guest keeps running. The
 * backup becomes valid when it has been verified.
 */
export function backupCreateKind(context: BackupContext): OperationKind<'backupCreate', BackupInput> {
  const { store, now } = context
  return {
    action: 'backup-create',
    accept: ({ uuid, target, description }, asked) => {
      const subject = backupSubject(context, uuid)
      const input = {
        ...parseBackupTarget(context.targets, subject.id, target),
        description: checkDescription('description', description),
      }
      return {
        subject,
        input,
        hashOf: { targetId: input.targetId, description },
        reserve: () => {
          const record = store.get(subject.id)
          checkSendable(record, asked)
          const { operationId: id, requestedBy: createdBy } = asked
          const { targetId } = input
          reserveBackup(store, record, { id, targetId, createdAtMs: now(), createdBy, description })
        },
      }
    },
    steps: backupSteps(context),
    settle: ({ id, subject }, { status }) => {
      if (status === 'done') updateBackup(store, subject.id, { id, state: 'ready' })
      else forgetBackup(store, subject.id, id)
    },
  }
}

/** Refuses a guest that is broken, being created or being deleted. @throws {BerthError} `invalid_state` */
function checkSendable(record: GuestRecord, asked: OrderContext): void {
  refuseBroken(record)
  refuseDeleted(record)
  if (record.status === 'deleting' || asked.leaving(guestSubject(record.uuid)))
    throw conflict('invalid_state', 'the container is being deleted')
  if (record.status === 'creating') throw conflict('invalid_state', 'the container is being created')
}
