import type { DefinedOperation, OperationOutcome } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import type { GuestStatus } from '../record/record.js'

/** Sets guests' status when operations begin and end, in the engine's transactions. */

/** Sets the status during an operation, and the desired state from now on. The operation's end settles both. */
export function mark(context: GuestContext, status: GuestStatus, wanted: 'running' | 'stopped') {
  return ({ subject }: Pick<DefinedOperation<unknown>, 'subject'>): void =>
    context.store.update(subject.id, { status, wanted, statusReason: '' })
}

export function settled({ store }: GuestContext, uuid: string, status: 'running' | 'stopped', statusReason = ''): void {
  store.update(uuid, { status, statusReason })
}

/** Marks a guest as broken: from then on, it can only be deleted. */
export function broken({ store }: GuestContext, uuid: string, statusReason: string): void {
  store.update(uuid, { status: 'error', statusReason, wanted: 'stopped' })
}

/** @param keepWanted the guest ran before and still should: a later comparison with the host starts it */
export function settleStart(
  context: GuestContext,
  uuid: string,
  { outcome, keepWanted }: { outcome: OperationOutcome; keepWanted: boolean },
): void {
  if (outcome.status === 'done') return settled(context, uuid, 'running')
  if (outcome.status === 'canceled') return // nothing was begun
  const wanted = keepWanted ? {} : ({ wanted: 'stopped' } as const)
  context.store.update(uuid, { status: 'stopped', statusReason: outcome.message, ...wanted })
}
