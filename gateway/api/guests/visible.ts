import { guestsOf, isBound, type Principal } from '../../access/principal.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { countGuests, type GuestCounts } from '../../fleet/guest-status.js'

/* This module selects the part of the fleet that a caller may see, for routes with `bound: 'own'`. */

/** Warnings that a caller may see. Callers restricted to some guests get [], as warnings can name other guests. */
export function visibleWarnings(caller: Principal, warnings: readonly string[]): string[] {
  return isBound(caller) ? [] : [...new Set(warnings)]
}

/** Guests that a caller who is restricted to some guests may see, ordered by id. */
export function boundGuests(view: FleetView, caller: Principal): GuestView[] {
  return sortedById(guestsOf(caller, view))
}

/** Guests on one host that the caller may see, ordered by id. */
export function visibleGuestsOf(view: FleetView, caller: Principal, hostId: string): GuestView[] {
  if (!isBound(caller)) return sortedById(view.guestsOf(hostId))
  return boundGuests(view, caller).filter((guest) => guest.hostId === hostId)
}

/** Counts the guests that the caller may see, on one host or on all hosts. */
export function countVisible(view: FleetView, caller: Principal, hostId?: string): GuestCounts {
  if (!isBound(caller)) return view.countGuests(hostId)
  return countGuests(hostId === undefined ? boundGuests(view, caller) : visibleGuestsOf(view, caller, hostId))
}

function sortedById(guests: Iterable<GuestView>): GuestView[] {
  return [...guests].sort((a, b) => a.guest.id - b.guest.id)
}
