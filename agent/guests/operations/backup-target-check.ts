import type { OperationKind } from '../../operations/orders.js'
import type { GuestContext } from '../context.js'
import { parseBackupTarget, repositoryOf, type TargetInput } from './backup-order.js'

export function backupTargetCheckKind(context: GuestContext): OperationKind<'backupTargetCheck', TargetInput> {
  return {
    action: 'backup-target-check',
    accept: ({ target }) => {
      const input = parseBackupTarget(context, target?.id ?? '', target)
      const subject = { kind: 'backup_target', id: input.targetId, name: target?.name ?? '', number: 0 }
      return { subject, input, hashOf: { targetId: input.targetId }, reserve: () => undefined }
    },
    steps: [
      {
        name: 'check',
        cancelable: true,
        run: async (step) => {
          const { target } = repositoryOf(context, step.subject.id, step.input)
          await step.yieldWhile(context.backups.probe(target, step))
        },
      },
    ],
  }
}
