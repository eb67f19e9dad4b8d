import type { AlertView, GuestView, HostView, OperationView } from './reported.js'

/** A difference in the view: before and after; absent: it did not exist, or was removed. */
export type FleetChange =
  | { readonly kind: 'guest'; readonly before?: GuestView; readonly after?: GuestView }
  | { readonly kind: 'task'; readonly before?: OperationView; readonly after?: OperationView }
  | { readonly kind: 'alert'; readonly before?: AlertView; readonly after?: AlertView }
  | { readonly kind: 'host'; readonly before?: HostView; readonly after?: HostView }
  | { readonly kind: 'usage'; readonly after: HostView }

/** @param hostId host whose part of the view changed */
export type ChangeListener = (change: FleetChange, hostId: string) => void

/** Reports each change of the view, in order, right after it. The first state of a newly seen host is not a change. */
export class FleetChanges {
  readonly #listeners = new Set<ChangeListener>()

  /** @returns a function that removes the listener */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** @param host `epoch` empty: it has not reported everything yet */
  tell(host: { readonly epoch: string; readonly record: { readonly id: string } }, change: FleetChange): void {
    if ((host.epoch === '' && change.kind !== 'host') || !differs(change)) return
    for (const listener of this.#listeners) listener(change, host.record.id)
  }
}

/** An agent that starts over sends everything again; an item with the same revision is unchanged. */
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
