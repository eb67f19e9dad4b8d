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

/** A host that is away leaves its guests' state unknown, whatever it was last. */
export function statusOf(view: GuestView): GuestStatusName {
  return view.online ? reportedStatus(view.guest.status) : 'unknown'
}

/** A word of an agent that is none counts as unknown. */
export function reportedStatus(word: string): GuestStatusName {
  return known.has(word) ? (word as GuestStatusName) : 'unknown'
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
