import { guestsOf, isBound, maySee, type Principal } from '../../access/principal.js'
import type { FleetView, GuestView, OperationView } from '../../fleet/contract.js'
import { guestUuidOf } from '../../fleet/operation-subject.js'
import { sortedById } from './guest-pages.js'

/*
 * What of the fleet exists for a caller, for routes that answer of it (`bound: 'own'`).
 */

/** Warnings of a host or its agent may name any container. */
export function visibleWarnings(caller: Principal, warnings: readonly string[]): string[] {
  return isBound(caller) ? [] : [...new Set(warnings)]
}

/** In the order of their ids. */
export function visibleGuests(view: FleetView, caller: Principal): GuestView[] {
  return sortedById(guestsOf(caller, view))
}

/** Newest first. */
export function visibleOperations(view: FleetView, caller: Principal): OperationView[] {
  const all = view.operations()
  return isBound(caller) ? all.filter(({ operation }) => maySee(caller, guestUuidOf(operation))) : all
}
