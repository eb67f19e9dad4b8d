import { GuestStatus } from '../../proto/gen/berth/agent/v1/guest.js'
import type { GuestView } from './reported.js'

export const guestStatuses = [
  'creating',
  'starting',
  'running',
  'stopping',
  'stopped',
  'restarting',
  'deleting',
  'error',
  'unknown',
] as const

export type GuestStatusName = (typeof guestStatuses)[number]

const statusNames: Partial<Record<GuestStatus, GuestStatusName>> = {
  [GuestStatus.GUEST_STATUS_CREATING]: 'creating',
  [GuestStatus.GUEST_STATUS_STARTING]: 'starting',
  [GuestStatus.GUEST_STATUS_RUNNING]: 'running',
  [GuestStatus.GUEST_STATUS_STOPPING]: 'stopping',
  [GuestStatus.GUEST_STATUS_STOPPED]: 'stopped',
  [GuestStatus.GUEST_STATUS_RESTARTING]: 'restarting',
  [GuestStatus.GUEST_STATUS_DELETING]: 'deleting',
  [GuestStatus.GUEST_STATUS_ERROR]: 'error',
}

/** A host that is away leaves its guests' state unknown, whatever it was last. */
export function statusOf(view: GuestView): GuestStatusName {
  return view.online ? reportedStatus(view.guest.status) : 'unknown'
}

export function reportedStatus(status: GuestStatus): GuestStatusName {
  return statusNames[status] ?? 'unknown'
}

/** Guests by the status they are shown with; those that nobody has are left out. */
export interface GuestCounts {
  readonly total: number
  readonly byStatus: ReadonlyMap<GuestStatusName, number>
}

export function countGuests(guests: Iterable<GuestView>): GuestCounts {
  const byStatus = new Map<GuestStatusName, number>()
  let total = 0
  for (const guest of guests) {
    const status = statusOf(guest)
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
    total++
  }
  return { total, byStatus }
}

export function addCounts(all: Iterable<GuestCounts>): GuestCounts {
  const byStatus = new Map<GuestStatusName, number>()
  let total = 0
  for (const counts of all) {
    for (const [status, count] of counts.byStatus) byStatus.set(status, (byStatus.get(status) ?? 0) + count)
    total += counts.total
  }
  return { total, byStatus }
}
