import { conflict } from '../../../shared/errors.js'
import type { OperationKind } from '../../operations/orders.js'
import type { GuestContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import type { GuestRecord } from '../record/record.js'
import { removeStep } from '../steps.js'

/**
 * Deletes the old copy of a guest that now belongs to another host. The guest itself and its backups stay. The subject
 * has the kind `copy` instead of `guest`, so that the guest's customer does not see the task.
 */
export function deleteCopyKind(context: GuestContext): OperationKind<'deleteCopy', object> {
  const { store } = context
  const remove = removeStep(context)
  return {
    action: 'delete_copy',
    accept: (order) => {
      const uuid = parseUuid('uuid', order.uuid)
      const { name = '', id: number = 0 } = store.find(uuid) ?? {}
      return {
        subject: { kind: 'copy', id: uuid, name, number },
        input: {},
        reserve: () => refuseOwned(store.get(uuid)),
      }
    },
    steps: [
      {
        ...remove,
        run: async (step) => {
          const record = store.find(step.subject.id)
          if (record) refuseOwned(record)
          await remove.run(step)
        },
      },
    ],
    settle: ({ subject: { id } }, { status }) => {
      if (status === 'done' && store.find(id)?.ownership.role === 'fenced') store.remove(id)
    },
  }
}

/** @throws {BerthError} `invalid_state` if the guest does not belong to another host */
function refuseOwned({ ownership }: GuestRecord): void {
  if (ownership.role !== 'fenced')
    throw conflict('invalid_state', 'the container belongs to this host: only old copies can be deleted this way')
}
