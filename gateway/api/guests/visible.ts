import { guestsOf, isBound, type Principal } from '../../access/principal.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { countGuests, type GuestCounts } from '../../fleet/guest-status.js'

/*
 * What of the fleet exists for a caller, for routes that answer of it (`bound: 'own'`).
 */

/** Warnings of a host or its agent may name any container. */
export function visibleWarnings(caller: Principal, warnings: readonly string[]): string[] {
  return isBound(caller) ? [] : [...new Set(warnings)]
}

/** Those of a caller that is bound to some, in the order of their ids. */
export function boundGuests(view: FleetView, caller: Principal): GuestView[] {
  return sortedById(guestsOf(caller, view))
}

/** On one host, in the order of their ids. */
export function visibleGuestsOf(view: FleetView, caller: Principal, hostId: string): GuestView[] {
  if (!isBound(caller)) return sortedById(view.guestsOf(hostId))
  return boundGuests(view, caller).filter((guest) => guest.hostId === hostId)
}

/** Of one host; default: of all. */
export function countVisible(view: FleetView, caller: Principal, hostId?: string): GuestCounts {
  if (!isBound(caller)) return view.countGuests(hostId)
  return countGuests(hostId === undefined ? boundGuests(view, caller) : visibleGuestsOf(view, caller, hostId))
}

function sortedById(guests: Iterable<GuestView>): GuestView[] {
  return [...guests].sort((a, b) => a.guest.id - b.guest.id)
}
