import { serverTime } from '../ui/server-time.svelte.ts'
import { api, ask, send } from '../api/client.ts'
import { asFailure } from '../api/failure.ts'
import { inParallel } from '../api/in-parallel.ts'
import type { Guest } from '../api/types.ts'
import { ordered } from './guests.svelte.ts'
import { extendedExpiry, timeBounds, type BatchAction } from './filter.ts'

const pathOf = ({ id }: Pick<Guest, 'id'>) => ({ path: { id: String(id) } })

export type PowerAction = 'start' | 'stop' | 'restart'

/** Submits a power action. @param force true to stop the guest without waiting for its shutdown @throws {ApiFailure} */
export async function power(guest: Pick<Guest, 'id'>, action: PowerAction, force = false): Promise<void> {
  const params = pathOf(guest)
  if (action === 'start') await ask(() => api.POST('/containers/{id}/start', { params }))
  else if (action === 'stop') await ask(() => api.POST('/containers/{id}/stop', { params, body: { force } }))
  else await ask(() => api.POST('/containers/{id}/restart', { params, body: { force } }))
  ordered()
}

/** Lifts a suspension. @throws {ApiFailure} */
export async function unsuspend(guest: Pick<Guest, 'id'>): Promise<void> {
  await send(() => api.POST('/containers/{id}/unsuspend', { params: pathOf(guest) }))
  ordered()
}

/** Undoes the deletion of a guest that was not removed yet. @throws {ApiFailure} */
export async function undelete(guest: Pick<Guest, 'id'>): Promise<void> {
  await send(() => api.POST('/containers/{id}/undelete', { params: pathOf(guest) }))
  ordered()
}

/** Submits the deletion of a guest and of everything that belongs to it. @throws {ApiFailure} */
export async function deleteGuest(guest: Pick<Guest, 'id'>): Promise<void> {
  await send(() => api.DELETE('/containers/{id}/delete', { params: pathOf(guest) }))
  ordered()
}

export interface BulkOutcome {
  readonly queued: number
  readonly failed: readonly { readonly name: string; readonly code: string; readonly message: string }[]
}

/** Number of guests that the API accepts in one batch. */
const batchSize = 100

/** Submits an action for several guests. @throws {ApiFailure} if the gateway refused a whole batch */
export async function bulk(guests: readonly Guest[], action: BatchAction): Promise<BulkOutcome> {
  let queued = 0
  const failed: BulkOutcome['failed'][number][] = []
  for (let at = 0; at < guests.length; at += batchSize) {
    const containers = guests.slice(at, at + batchSize).map(({ uuid }) => uuid)
    const answer = await send(() => api.POST('/batch-action', { body: { action, containers } }))
    queued += answer.data.length
    failed.push(...((answer as { failed?: BulkOutcome['failed'] }).failed ?? []))
  }
  ordered()
  return { queued, failed }
}

/** Adds days to the expiry of several guests. */
export function extendAll(guests: readonly Guest[], days: number): Promise<BulkOutcome> {
  const { nowText } = timeBounds(serverTime.readMs(), serverTime.format)
  return forEach(guests, async (guest) => {
    const body = { expires_at: extendedExpiry(guest.expires_at, days, nowText) }
    await send(() => api.PUT('/containers/{id}/expiry', { params: pathOf(guest), body }))
  })
}

/** Requests one snapshot of each guest. */
export function snapshotAll(guests: readonly Guest[], description: string): Promise<BulkOutcome> {
  return forEach(guests, async (guest) => {
    await send(() => api.POST('/containers/{id}/snapshots', { params: pathOf(guest), body: { description } }))
  })
}

/** Sends a request for each guest. A failed request does not stop the others. */
async function forEach(guests: readonly Guest[], request: (guest: Guest) => Promise<void>): Promise<BulkOutcome> {
  const failed: BulkOutcome['failed'][number][] = []
  await inParallel(guests, (guest) =>
    request(guest).catch((thrown: unknown) => {
      const { code, message } = asFailure(thrown)
      failed.push({ name: guest.name, code, message })
    }),
  )
  ordered()
  return { queued: guests.length - failed.length, failed }
}
