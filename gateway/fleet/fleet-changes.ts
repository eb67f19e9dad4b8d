import type { AlertView, GuestView, HostView, OperationView } from './reported.js'

/** A change of an item in the view. Without `before` the item is new, without `after` it was removed. */
export type FleetChange =
  | { readonly kind: 'guest'; readonly before?: GuestView; readonly after?: GuestView }
  | { readonly kind: 'task'; readonly before?: OperationView; readonly after?: OperationView }
  | { readonly kind: 'alert'; readonly before?: AlertView; readonly after?: AlertView }
  | { readonly kind: 'host'; readonly before?: HostView; readonly after?: HostView }
  | { readonly kind: 'usage'; readonly after: HostView }

/** @param hostId id of the host to which the item belongs */
export type ChangeListener = (change: FleetChange, hostId: string) => void

/** Reports the changes of the view in order. The first state of a host is not reported as a change. */
export class FleetChanges {
  readonly #listeners = new Set<ChangeListener>()

  /** @returns a function that removes the listener */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reports a change. @param host not reported if its `epoch` is empty, because its first state is not complete */
  tell(host: { readonly epoch: string; readonly record: { readonly id: string } }, change: FleetChange): void {
    if ((host.epoch === '' && change.kind !== 'host') || !differs(change)) return
    for (const listener of this.#listeners) listener(change, host.record.id)
  }
}

/** True if the item changed. An agent that starts again sends all items; the same revision means no change. */
function differs(change: FleetChange): boolean {
  const { kind, after } = change
  const before = kind === 'usage' ? undefined : change.before
  if (before === undefined || after === undefined) return before !== after
  if (change.kind === 'guest') return revisionOf(change.before) !== revisionOf(change.after)
  if (change.kind === 'task') return change.before?.operation.revision !== change.after?.operation.revision
  if (change.kind === 'alert') return change.before?.alert.revision !== change.after?.alert.revision
  return true
}

function revisionOf(view: GuestView | undefined): string {
  return view === undefined ? '' : `${view.hostId} ${view.guest.revision}`
}
