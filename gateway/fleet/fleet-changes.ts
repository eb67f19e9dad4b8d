import { usageLane, type ChangeMark } from './change-mark.js'
import type { AlertView, GuestView, HostView, OperationView } from './reported.js'

/** A change of an item in the fleet view. Without `before` the item is new, without `after` it was removed. */
export type FleetChange =
  | { readonly kind: 'guest'; readonly before?: GuestView; readonly after?: GuestView }
  | { readonly kind: 'task'; readonly before?: OperationView; readonly after?: OperationView }
  | { readonly kind: 'alert'; readonly before?: AlertView; readonly after?: AlertView }
  | { readonly kind: 'host'; readonly before?: HostView; readonly after?: HostView }
  | { readonly kind: 'usage'; readonly after: HostView }

/**
 * @param hostId id of the host to which the item belongs
 * @param mark position of the change; undefined: other gateways cannot recognize the change
 */
export type ChangeListener = (change: FleetChange, hostId: string, mark: ChangeMark | undefined) => void

/** Called when listeners have received all changes up to a position, except changes that need no notification. */
export type PositionListener = (mark: ChangeMark) => void

/** Properties of a host that decide which of its changes are passed to listeners. */
interface ReportingHost {
  readonly record: { readonly id: string }
  /** Identity of the agent's journal. Empty: the complete state of the host has not been received yet. */
  readonly epoch: string
  /**
   * Used only while the first report of the host is processed (`epoch` is empty). Listeners get only changes with a
   * revision above this one, because the previous gateway process has passed on all earlier changes. -1: listeners get
   * all changes; undefined: none.
   */
  readonly newsAfter?: number | undefined
}

/**
 * Passes each change of the fleet view to the listeners, immediately and in order. Listeners do not get changes that
 * the previous gateway process has already passed on.
 */
export class FleetChanges {
  readonly #listeners = new Set<ChangeListener>()
  readonly #positionListeners = new Set<PositionListener>()
  #mark: ChangeMark | undefined

  /** @returns a function that removes the listener */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** @returns a function that removes the listener */
  listenPositions(listener: PositionListener): () => void {
    this.#positionListeners.add(listener)
    return () => this.#positionListeners.delete(listener)
  }

  /** Executes `work`. All changes of the fleet view during this call get the position `mark`. */
  during(mark: ChangeMark | undefined, work: () => void): void {
    this.#mark = mark
    try {
      work()
    } finally {
      this.#mark = undefined
    }
  }

  tell(host: ReportingHost, change: FleetChange, mark = this.#mark): void {
    if (!isNews(host, change)) return
    const known = change.kind === 'usage' ? sampleMark(change, host.record.id) : mark
    for (const listener of this.#listeners) listener(change, host.record.id, known)
  }

  reach(mark: ChangeMark): void {
    for (const listener of this.#positionListeners) listener(mark)
  }
}

/** Revision of the changed item in the journal of its host. 0: the change has no revision. */
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

function sampleMark({ after }: { readonly after: HostView }, hostId: string): ChangeMark {
  return { lane: usageLane(hostId), revision: after.metrics?.sampledAtMs ?? 0 }
}

function isNews({ epoch, newsAfter }: ReportingHost, change: FleetChange): boolean {
  if (epoch !== '' || change.kind === 'host') return differs(change)
  if (newsAfter === undefined) return false
  return change.after === undefined || revisionOf(change) > newsAfter
}

/** True if the item has changed. Agents send all items again when they start, also unchanged ones. */
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
