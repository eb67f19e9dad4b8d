import type { OperationKind } from '../../operations/orders.js'
import type { BackupContext } from '../context.js'
import { parseBackupTarget, repositoryOf, type TargetInput } from './backup-order.js'

export function backupTargetCheckKind(
  context: Pick<BackupContext, 'backups' | 'targets'>,
): OperationKind<'backupTargetCheck', TargetInput> {
  return {
    action: 'backup-target-check',
    accept: ({ target }) => {
      const input = parseBackupTarget(context.targets, target?.id ?? '', target)
      const subject = { kind: 'backup_target', id: input.targetId, name: target?.name ?? '', number: 0 }
      return { subject, input, hashOf: { targetId: input.targetId }, reserve: () => undefined }
    },
    steps: [
      {
        name: 'check',
        cancelable: () => true,
        run: async (step) => {
          const { target } = repositoryOf(context.targets, step.subject.id, step.input)
          await step.yieldWhile(context.backups.probe(target, step))
        },
      },
    ],
  }
}
