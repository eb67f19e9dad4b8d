import { conflict } from '../../../shared/errors.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'
import {
  firstOwnership,
  mayStart,
  planOwnership,
  unknownOwnership,
  type Ownership,
  type OwnershipChange,
  type OwnershipEvent,
} from '../ownership/plan-ownership.js'

/** Returns what this host knows about the owner of a guest, even if the host does not have the guest. */
export function readOwnership(store: GuestStore, uuid: string): Ownership {
  const known = store.changes.db
    .prepare<[string], Ownership>('SELECT role, generation, move_id AS moveId FROM guest_owners WHERE guest_uuid = ?')
    .get(uuid)
  const hasGuest = store.find(uuid) !== undefined
  if (!known) return hasGuest ? firstOwnership : unknownOwnership
  // If the host does not have the guest, the row is left from a deleted guest. Only its generation is still valid.
  return hasGuest ? known : { ...known, role: 'absent', moveId: '' }
}

/**
 * Writes the result of an event to the state database. Joins the caller's transaction.
 * @returns `undefined` if the event is not valid now and nothing was written
 */
export function changeOwnership(store: GuestStore, uuid: string, event: OwnershipEvent): OwnershipChange | undefined {
  return store.changes.transaction(() => {
    const change = planOwnership(readOwnership(store, uuid), event)
    if (change) writeOwnership(store, uuid, change.next)
    return change
  })
}

function writeOwnership(store: GuestStore, uuid: string, { role, generation, moveId }: Ownership): void {
  store.changes.db
    .prepare(
      `INSERT INTO guest_owners (guest_uuid, role, generation, move_id, details) VALUES (?, ?, ?, ?, '{}')
       ON CONFLICT (guest_uuid) DO UPDATE SET role = excluded.role, generation = excluded.generation,
       move_id = excluded.move_id`,
    )
    .run(uuid, role, generation, moveId)
  if (store.find(uuid)) store.touch(uuid)
}

/** Returns the details that `writeDetails` stored about the guest's move; {} if it stored no details. */
export function readDetails(store: GuestStore, uuid: string): unknown {
  const text = store.changes.db
    .prepare<[string], string>('SELECT details FROM guest_owners WHERE guest_uuid = ?')
    .pluck()
    .get(uuid)
  return JSON.parse(text ?? '{}')
}

/** Stores the details of the guest's move. The guest must have a row in `guest_owners`. */
export function writeDetails(store: GuestStore, uuid: string, details: unknown): void {
  store.changes.db
    .prepare('UPDATE guest_owners SET details = ? WHERE guest_uuid = ?')
    .run(JSON.stringify(details), uuid)
}

/** Error message for requests that are not possible before the move of the container has ended. */
export const isMovingText = 'the container is moving to another host: wait for the task, or cancel it'

/** Refuses to change or start a guest that another host owns, or could own. @throws {BerthError} `invalid_state` */
export function refuseNotOwned({ ownership }: Pick<GuestRecord, 'ownership'>): void {
  if (mayStart(ownership)) return
  if (ownership.role !== 'fenced') throw conflict('invalid_state', isMovingText)
  throw conflict('invalid_state', 'this host has only an old copy of the container, which was moved to another host')
}
