import { revisionOf, type FleetChange } from '../fleet/fleet-changes.js'
import type { FleetView } from '../fleet/contract.js'

/** A change, and its revision in the journal of its host. Revision 0: the change has no revision. */
export interface News {
  readonly hostId: string
  readonly change: FleetChange
  readonly revision: number
}

export function newsOf(change: FleetChange, hostId: string): News {
  return { hostId, change, revision: revisionOf(change) }
}

/**
 * Finds missed changes: items of a host with a higher revision than `since`, oldest first, in their present state.
 * Deleted containers cannot be found, but the tasks that deleted them can be found.
 */
export function missedNews(view: FleetView, hostId: string, since: number): News[] {
  const own = [...entitiesOf(view, hostId)]
    .filter((change) => !hasMoved(change))
    .map((change) => newsOf(change, hostId))
  return own.filter(({ revision }) => revision > since).sort((a, b) => a.revision - b.revision)
}

/** True if the item moved with its guest from another host, which has reported it already. */
function hasMoved(change: FleetChange): boolean {
  if (change.kind === 'task') return change.after?.operation.moved ?? false
  return change.kind === 'alert' && (change.after?.alert.moved ?? false)
}

/** Returns the highest revision of the host's guests, tasks and alerts in the fleet view. */
export function newestRevision(view: FleetView, hostId: string): number {
  let newest = 0
  for (const change of entitiesOf(view, hostId)) newest = Math.max(newest, revisionOf(change))
  return newest
}

function* entitiesOf(view: FleetView, hostId: string): Iterable<FleetChange> {
  // The former states are not known. `before` is the present state, because an item without `before` counts as new.
  for (const guest of view.guestsOf(hostId)) yield { kind: 'guest', before: guest, after: guest }
  for (const task of view.operationsOn(hostId)) yield { kind: 'task', after: task }
  for (const alert of view.alerts(hostId)) yield { kind: 'alert', before: alert, after: alert }
}
