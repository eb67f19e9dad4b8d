import type { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError, notFound } from '../../../shared/errors.js'
import type { Fleet, FleetView, GuestView, OperationView } from '../../fleet/contract.js'
import { sortedById } from './guest-pages.js'
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

/** In the order of their ids. */
export function visibleGuests(view: FleetView, caller: Caller): GuestView[] {
  if (!isBound(caller)) return sortedById(view.guests())
  return sortedById([...caller.containerUuids].flatMap((uuid) => view.findGuest(uuid) ?? []))
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

/** Newest first. */
export function visibleOperations(view: FleetView, caller: Caller): OperationView[] {
  const all = view.operations()
  return isBound(caller) ? all.filter(({ operation }) => mayActOn(caller, guestUuidOf(operation))) : all
}

/**
 * Also one that is too old for the list.
 * @throws {BerthError} `not_found`
 */
export async function getVisibleOperation(fleet: Fleet, caller: Caller, id: string): Promise<OperationView> {
  const found = await fleet.findOperation(id)
  if (found === undefined || !mayActOn(caller, guestUuidOf(found.operation))) throw notFound('task')
  return found
}

/** Of the guest that it is about; empty: about none. */
export function guestUuidOf({ subject }: Operation): string {
  return subject?.kind === 'guest' ? subject.id : ''
}

/** @throws {BerthError} `insufficient_scope` for a key bound to containers */
export function refuseBound(caller: Caller, what: string): void {
  if (isBound(caller))
    throw new BerthError('forbidden', 'insufficient_scope', `a key bound to containers may not ${what}`)
}

function mayActOn(caller: Caller, guestUuid: string): boolean {
  return !isBound(caller) || caller.containerUuids.has(guestUuid)
}
