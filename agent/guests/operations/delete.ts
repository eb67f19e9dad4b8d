import type { OperationKind } from '../../operations/orders.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { removeStep } from '../steps.js'
import { acceptForGuest, refuseProtected } from './guest-order.js'
import { broken, mark } from './outcomes.js'

export function deleteKind(context: GuestContext): OperationKind<'delete', { force: boolean }> {
  return {
    action: 'delete',
    accept: ({ uuid }, asked) =>
      acceptForGuest(context.store, asked, { uuid, input: { force: false }, allowsFenced: true, check: refuseOriginal }),
    forwardOnly: true,
    begin: mark(context.store, 'deleting', 'stopped'),
    steps: [removeStep(context)],
    settle: ({ subject }, outcome) => {
      if (outcome.status === 'done') context.store.remove(subject.id)
      else if (outcome.status === 'failed') broken(context.store, subject.id, outcome.message)
    },
  }
}

/** Refuses to delete a protected guest, but not an old copy of a guest that now belongs to another host. */
function refuseOriginal(record: GuestRecord): void {
  if (record.ownership.role !== 'fenced') refuseProtected(record)
}
