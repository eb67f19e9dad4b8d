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

const known: ReadonlySet<string> = new Set(guestStatuses)

/** Status of a guest. It is `unknown` while the host is offline. */
export function statusOf(view: Pick<GuestView, 'guest' | 'online'>): GuestStatusName {
  return view.online ? reportedStatus(view.guest.status) : 'unknown'
}

/** Converts a status of an agent. A status that this gateway does not know becomes `unknown`. */
export function reportedStatus(word: string): GuestStatusName {
  return known.has(word) ? (word as GuestStatusName) : 'unknown'
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
