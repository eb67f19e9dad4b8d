import { api, ask, send } from '../../api/client.ts'
import { ApiFailure } from '../../api/failure.ts'
import type { CreatedGuest } from '../../api/types.ts'
import { planRequest, type CreateForm } from './form.ts'

/** A guest of a batch that could not be created. */
export interface Leftover {
  readonly guest: string
  readonly failure: ApiFailure
}

export interface Creation {
  readonly guests: readonly CreatedGuest[]
  readonly leftovers: readonly Leftover[]
}

/**
 * Submits the creation of one or several guests.
 * @param key idempotency key: a repeated request with the same key creates no further guests
 * @throws {ApiFailure} if no guest is created
 */
export async function createGuests(form: CreateForm, key: string): Promise<Creation> {
  const body = planRequest(form)
  const headers = { 'Idempotency-Key': key }
  if (form.count === 1) return { guests: [await ask(() => api.POST('/containers', { body, headers }))], leftovers: [] }
  const batch = { ...body, count: form.count }
  const { containers, failed } = await send(() => api.POST('/batch-create', { body: batch, headers }))
  const leftovers = failed.map(({ name, code, message }) => ({ guest: name, failure: new ApiFailure(code, message) }))
  return { guests: containers, leftovers }
}
