import { checkInteger } from '../../../shared/field-checks.js'
import { maxRetainMs } from '../../../shared/deletion-rules.js'
import type { OperationEngine } from '../../operations/engine.js'
import type { OrderContext, OperationKind, OrderOf } from '../../operations/orders.js'
import type { DefinedOperation, Step } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import { planDelete, planUndelete, refuseDeleted } from '../deletion/plan-deletion.js'
import type { GuestRecord } from '../record/record.js'
import { removeStep, stopStep, type StopInput } from '../steps.js'
import { acceptForGuest, guestSubject, refuseBroken, refuseProtected } from './guest-order.js'
import { broken, mark, settled } from './outcomes.js'
import type { GuestStore } from '../record/guest-store.js'

interface DeleteInput extends StopInput {
  /** Time in ms for which the guest is only stopped and can be undeleted. 0 or undefined: it is removed at once. */
  retainMs?: number
}

/**
 * Removes the guest, or stops it and marks it as deleted. `DueDeletions` later submits the removal of a marked guest
 * (docs/design/deletion.md).
 */
export function deleteKind(context: GuestContext): OperationKind<'delete', DeleteInput> {
  const { store } = context
  return {
    action: 'delete',
    accept: (order, asked) => acceptDelete(context, order, asked),
    forwardOnly: true,
    begin: (operation) => {
      if (!isUndone(store, operation)) mark(store, 'deleting', 'stopped')(operation)
    },
    steps: [
      onlyIf(stopStep(context), (operation) => isRetained(operation) && !isUndone(store, operation)),
      onlyIf(removeStep(context), (operation) => !isRetained(operation)),
    ],
    settle: (operation, outcome) => {
      const { id } = operation.subject
      if (outcome.status === 'canceled') return takeBack(store, operation)
      if (outcome.status === 'failed') broken(store, id, outcome.message)
      else if (outcome.status === 'done' && !isRetained(operation)) store.remove(id)
      else if (outcome.status === 'done' && store.find(id)?.status === 'deleting') settled(store, id, 'stopped')
    },
  }
}

/** @throws {BerthError} `invalid_field`; the returned `reserve` throws `delete_protected`, `invalid_state` */
function acceptDelete({ store, now }: GuestContext, { uuid, retainMs = 0 }: OrderOf<'delete'>, asked: OrderContext) {
  checkInteger('retain_ms', retainMs, { min: 0, max: maxRetainMs })
  const check = (record: GuestRecord): void => {
    refuseOriginal(record)
    if (retainMs === 0) return
    refuseBroken(record)
    refuseDeleted(record)
    store.update(uuid, planDelete(record, now(), retainMs))
  }
  const input = { force: false, ...(retainMs > 0 && { retainMs }) }
  return {
    ...acceptForGuest(store, asked, { uuid, input, allowsFenced: true, allowsDeleted: true, check }),
    // The hash leaves out `retainMs`, because a repeated request has a new value if the fleet's setting has changed.
    hashOf: { force: false },
  }
}

type Deletion = Pick<DefinedOperation<DeleteInput>, 'subject' | 'input'>

function isRetained({ input: { retainMs = 0 } }: Pick<Deletion, 'input'>): boolean {
  return retainMs > 0
}

/** True if the deletion was undone before the operation began. */
function isUndone(store: GuestStore, { subject, input }: Deletion): boolean {
  return isRetained({ input }) && !store.find(subject.id)?.deletion
}

/** Undoes the deletion that a canceled operation has recorded in its guest. */
function takeBack(store: GuestStore, { subject, input }: Deletion): void {
  const record = isRetained({ input }) ? store.find(subject.id) : undefined
  if (record?.deletion) store.update(subject.id, planUndelete(record))
}

/** True if an operation that removes the guest at once is pending or running. */
export function isBeingRemoved(engine: Pick<OperationEngine, 'openOperations' | 'store'>, uuid: string): boolean {
  const open = engine.openOperations(guestSubject(uuid)).map((id) => engine.store.findJournaled(id))
  return open.some((one) => one?.record.action === 'delete' && !isRetained({ input: one.input as DeleteInput }))
}

function onlyIf(step: Step<DeleteInput>, condition: (operation: Deletion) => boolean): Step<DeleteInput> {
  return {
    ...step,
    run: async (at) => {
      if (condition(at)) await step.run(at)
    },
  }
}

/** Refuses to delete a protected guest, but not an old copy of a guest that now belongs to another host. */
function refuseOriginal(record: GuestRecord): void {
  if (record.ownership.role !== 'fenced') refuseProtected(record)
}
