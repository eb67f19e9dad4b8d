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

/** A host as far as its changes depend on it. */
interface ReportingHost {
  readonly record: { readonly id: string }
  /** Empty: it has not reported everything yet. */
  readonly epoch: string
  /** During its first report: the revision up to which a former process has reported changes; undefined: none has. */
  readonly newsAfter?: number | undefined
}

/**
 * Reports each change of the view, in order, right after it. The first state of a newly seen host is not a change, except
 * for what happened since a former process.
 */
export class FleetChanges {
  readonly #listeners = new Set<ChangeListener>()

  /** @returns a function that removes the listener */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tell(host: ReportingHost, change: FleetChange): void {
    if (!isNews(host, change)) return
    for (const listener of this.#listeners) listener(change, host.record.id)
  }
}

/** The revision of its host that a change has; 0: it has none. */
export function revisionOf(change: FleetChange): number {
  switch (change.kind) {
    case 'guest':
      return change.after?.guest.revision ?? 0
    case 'task':
      return change.after?.operation.revision ?? 0
    case 'alert':
      return change.after?.alert.revision ?? 0
    case 'host':
    case 'usage':
      return 0
  }
}

function isNews({ epoch, newsAfter }: ReportingHost, change: FleetChange): boolean {
  if (epoch !== '' || change.kind === 'host') return differs(change)
  if (newsAfter === undefined) return false
  return change.after === undefined || revisionOf(change) > newsAfter
}

/** True if the item changed. An agent that starts again sends all items; the same revision means no change. */
function differs(change: FleetChange): boolean {
  const { kind, after } = change
  const before = kind === 'usage' ? undefined : change.before
  if (before === undefined || after === undefined) return before !== after
  if (change.kind === 'guest') return guestRevision(change.before) !== guestRevision(change.after)
  if (change.kind === 'task') return change.before?.operation.revision !== change.after?.operation.revision
  if (change.kind === 'alert') return change.before?.alert.revision !== change.after?.alert.revision
  return true
}

function guestRevision(view: GuestView | undefined): string {
  return view === undefined ? '' : `${view.hostId} ${view.guest.revision}`
}
