import type { DefinedOperation, OperationOutcome } from '../../operations/types.js'
import type { GuestStatus } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'

/** The functions of this file set a guest's status when an operation begins or ends, in the engine's transaction. */

/** Returns a `begin` function of an operation: it sets the guest's status and desired state. */
export function mark(store: GuestStore, status: GuestStatus, wanted: 'running' | 'stopped') {
  return ({ subject }: Pick<DefinedOperation<unknown>, 'subject'>): void =>
    store.update(subject.id, { status, wanted, statusReason: '' })
}

export function settled(store: GuestStore, uuid: string, status: 'running' | 'stopped', statusReason = ''): void {
  store.update(uuid, { status, statusReason })
}

/** Marks a guest as broken. A broken guest can only be deleted. */
export function broken(store: GuestStore, uuid: string, statusReason: string): void {
  store.update(uuid, { status: 'error', statusReason, wanted: 'stopped' })
}

/** Records the result of a start. @param keepWanted true if a failed start must not change the desired state */
export function settleStart(
  store: GuestStore,
  uuid: string,
  { outcome, keepWanted }: { outcome: OperationOutcome; keepWanted: boolean },
): void {
  if (outcome.status === 'done') return settled(store, uuid, 'running')
  if (outcome.status === 'canceled') return // canceled: no step ran, or all of them were undone
  const wanted = keepWanted ? {} : ({ wanted: 'stopped' } as const)
  store.update(uuid, { status: 'stopped', statusReason: outcome.message, ...wanted })
}
