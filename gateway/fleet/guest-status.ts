import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
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
  'deleted',
  'unknown',
] as const

export type GuestStatusName = (typeof guestStatuses)[number]

const known: ReadonlySet<string> = new Set(guestStatuses)

/**
 * Status of a guest. A guest that is marked as deleted always has the status `deleted`, so that lists hide it. Any
 * other guest has the status `unknown` while its host is offline.
 */
export function statusOf({ guest, online }: Pick<GuestView, 'guest' | 'online'>): GuestStatusName {
  return online || isDeleted(guest) ? reportedStatus(guest) : 'unknown'
}

/** True if the guest is marked as deleted, and its deletion can still be undone. */
export function isDeleted({ deletion }: Pick<Guest, 'deletion'>): boolean {
  return deletion !== undefined
}

/** Status that the agent reports. A status that this gateway does not know becomes `unknown`. */
export function reportedStatus(guest: Pick<Guest, 'status' | 'deletion'>): GuestStatusName {
  if (isDeleted(guest)) return 'deleted'
  return known.has(guest.status) ? (guest.status as GuestStatusName) : 'unknown'
}

/** Number of guests by status. A status that no guest has is missing. */
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
