import { conflict } from '../../../shared/errors.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'
import { readArrival } from './arrival-details.js'
import { readPausedAt } from './leave.js'

/**
 * Refuses the installation of another version of the agent while a guest is paused by a live move, or its memory is
 * arriving. An older version would not let such a guest run again.
 * @throws {BerthError} `guest_moving`
 */
export function refuseUpgrade(store: GuestStore): void {
  const moving = store.list().find((record) => isMovingLive(store, record))
  if (moving)
    throw conflict(
      'guest_moving',
      `the virtual machine ${moving.name} moves live: wait for the end of the move, or cancel it`,
    )
}

function isMovingLive(store: GuestStore, { uuid, ownership: { role } }: GuestRecord): boolean {
  if (role === 'arriving') return readArrival(store, uuid).isLive === true
  return (role === 'leaving' || role === 'handed_over') && readPausedAt(store, uuid) !== undefined
}
