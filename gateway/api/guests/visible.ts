import { BerthError, notFound } from '../../../shared/errors.js'
import type { Fleet, FleetView, GuestView, OperationView } from '../../fleet/contract.js'
import { countGuests, type GuestCounts } from '../../fleet/guest-status.js'
import type { Caller } from '../../http/route.js'

/*
 * What a key bound to containers may see. Others' containers do not exist for it: same answer, same bytes.
 */

export function isBound(caller: Caller): boolean {
  return caller.containerUuids.size > 0
}

/** Warnings of a host or its agent may name any container. */
export function visibleWarnings(caller: Caller, warnings: readonly string[]): string[] {
  return isBound(caller) ? [] : [...new Set(warnings)]
}

/** Those of a key that is bound to containers, in the order of their ids. */
export function boundGuests(view: FleetView, caller: Caller): GuestView[] {
  return sortedById([...caller.containerUuids].flatMap((uuid) => view.findGuest(uuid) ?? []))
}

/** On one host, in the order of their ids. */
export function visibleGuestsOf(view: FleetView, caller: Caller, hostId: string): GuestView[] {
  if (!isBound(caller)) return sortedById(view.guestsOf(hostId))
  return boundGuests(view, caller).filter((guest) => guest.hostId === hostId)
}

/** Of one host; default: of all. */
export function countVisible(view: FleetView, caller: Caller, hostId?: string): GuestCounts {
  if (!isBound(caller)) return view.countGuests(hostId)
  return countGuests(hostId === undefined ? boundGuests(view, caller) : visibleGuestsOf(view, caller, hostId))
}

function sortedById(guests: Iterable<GuestView>): GuestView[] {
  return [...guests].sort((a, b) => a.guest.id - b.guest.id)
}

/**
 * @param ref numeric id, uuid or name
 * @throws {BerthError} `not_found`
 */
export function getVisibleGuest(view: FleetView, caller: Caller, ref: string): GuestView {
  const found = view.findGuest(ref)
  if (found === undefined || !mayActOn(caller, found.guest.uuid)) throw notFound('container')
  return found
}

/**
 * Also one that is too old for the list.
 * @throws {BerthError} `not_found`
 */
export async function getVisibleOperation(fleet: Fleet, caller: Caller, id: string): Promise<OperationView> {
  const found = await fleet.findOperation(id)
  if (found === undefined || !mayActOn(caller, found.operation.guestUuid)) throw notFound('task')
  return found
}

/** @throws {BerthError} `insufficient_scope` for a key bound to containers */
export function refuseBound(caller: Caller, what: string): void {
  if (isBound(caller))
    throw new BerthError('forbidden', 'insufficient_scope', `a key bound to containers may not ${what}`)
}

function mayActOn(caller: Caller, guestUuid: string): boolean {
  return !isBound(caller) || caller.containerUuids.has(guestUuid)
}
