import { conflict } from '../../../shared/errors.js'
import type { OperationKind } from '../../operations/orders.js'
import { forgetBackup, updateBackup } from '../snapshots/backups.js'
import type { BackupContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import { backupSubject, parseBackupTarget, repositoryOf, type TargetInput } from './backup-order.js'

interface DeleteInput extends TargetInput {
  backupId: string
}

/** Deletes a backup, even of a guest that was deleted or moved away. Only the target still lists such a backup. */
export function backupDeleteKind(
  context: Pick<BackupContext, 'store' | 'backups' | 'targets'>,
): OperationKind<'backupDelete', DeleteInput> {
  const { store, backups } = context
  return {
    action: 'backup-delete',
    accept: (order) => {
      const subject = backupSubject(context, order.uuid)
      const backupId = parseUuid('backup_id', order.backupId)
      const input = { ...parseBackupTarget(context.targets, subject.id, order.target), backupId }
      return {
        subject,
        input,
        hashOf: { targetId: input.targetId, backupId },
        reserve: () => {
          const known = store.find(subject.id)?.backups.find(({ id }) => id === backupId)
          // The state `taking` must stay, because other operations use it to recognize the snapshot of an unfinished
          // backup.
          if (known?.state === 'taking')
            throw conflict('task_running', 'the backup is being created: cancel its task first')
          updateBackup(store, subject.id, { id: backupId, state: 'deleting' })
        },
      }
    },
    steps: [
      {
        name: 'forget',
        run: async (step) => {
          const at = repositoryOf(context.targets, step.subject.id, step.input)
          await step.yieldWhile(backups.forget(at, step.input.backupId, step))
        },
      },
    ],
    settle: ({ subject, input: { backupId: id } }, { status }) => {
      if (status === 'done') forgetBackup(store, subject.id, id)
      else updateBackup(store, subject.id, { id, state: 'ready' })
    },
  }
}
