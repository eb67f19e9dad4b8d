import { api, ask, send } from '../api/client.ts'
import type { Guest } from '../api/types.ts'
import { ordered } from './guests.svelte.ts'
import type { BulkAction } from './filter.ts'

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

/** Submits the deletion of a guest and of everything that belongs to it. @throws {ApiFailure} */
export async function deleteGuest(guest: Pick<Guest, 'id'>): Promise<void> {
  await send(() => api.DELETE('/containers/{id}/delete', { params: pathOf(guest) }))
  ordered()
}

interface BulkOutcome {
  readonly queued: number
  readonly failed: readonly { readonly name: string; readonly code: string; readonly message: string }[]
}

/** Submits an action for several guests. @throws {ApiFailure} if it was refused for all of them */
export async function bulk(guests: readonly Guest[], action: BulkAction): Promise<BulkOutcome> {
  const body = { action, containers: guests.map(({ uuid }) => uuid) }
  const answer = await send(() => api.POST('/batch-action', { body }))
  ordered()
  const { failed = [] } = answer as { failed?: BulkOutcome['failed'] }
  return { queued: answer.data.length, failed }
}
