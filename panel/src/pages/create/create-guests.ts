import { api, ask, send } from '../../api/client.ts'
import { ApiFailure, asFailure } from '../../api/failure.ts'
import type { CreatedGuest } from '../../api/types.ts'
import { presetFirewall } from '../../guests/firewall-presets.ts'
import type { Key } from '../../i18n/text.svelte.ts'
import { planRequest, type CreateForm } from './form.ts'

/** A setting that could not be changed after a guest was created, or a guest that could not be created. */
export interface Leftover {
  readonly guest: string
  readonly label: Key
  readonly failure: ApiFailure
}

export interface Creation {
  readonly guests: readonly CreatedGuest[]
  readonly leftovers: readonly Leftover[]
}

interface Refused {
  readonly name: string
  readonly code: string
  readonly message: string
}

/**
 * Submits the creation of one or several guests, and then the settings that are not part of a creation.
 * @param key idempotency key: a repeated request with the same key creates nothing
 * @throws {ApiFailure} if no guest is created
 */
export async function createGuests(form: CreateForm, key: string): Promise<Creation> {
  const { guests, refused } = await order(form, key)
  const leftovers = await Promise.all(guests.map((guest) => changeSettings(form, guest)))
  const notAssigned = await attempt('guest.owner', '', () => assign(form.owner, guests))
  return { guests, leftovers: [...refused.map(asLeftover), ...leftovers.flat(), ...notAssigned] }
}

async function order(form: CreateForm, key: string): Promise<{ guests: CreatedGuest[]; refused: readonly Refused[] }> {
  const body = planRequest(form)
  const headers = { 'Idempotency-Key': key }
  if (form.count === 1) return { guests: [await ask(() => api.POST('/containers', { body, headers }))], refused: [] }
  const batch = { ...body, count: form.count }
  const answer = await send(() => api.POST('/batch-create', { body: batch, headers }))
  return { guests: answer.containers, refused: answer.failed }
}

function asLeftover({ name, code, message }: Refused): Leftover {
  return { guest: name, label: 'create.failed', failure: new ApiFailure(code, message) }
}

async function changeSettings({ firewall, backupTarget }: CreateForm, { id, name }: CreatedGuest): Promise<Leftover[]> {
  const params = { path: { id: String(id) } }
  const protect = async (): Promise<void> => {
    if (firewall === '') return
    await send(() => api.PUT('/containers/{id}/firewall', { params, body: presetFirewall(firewall) }))
  }
  const backUp = async (): Promise<void> => {
    if (backupTarget === '') return
    const body = { enabled: true, interval_hours: 24, time: '03:00', retention: 7, target_id: backupTarget }
    await send(() => api.POST('/containers/{id}/backups/schedule', { params, body }))
  }
  return [...(await attempt('firewall.title', name, protect)), ...(await attempt('backups.title', name, backUp))]
}

/** Gives a customer the new guests in addition to those that the customer has. */
async function assign(owner: string, guests: readonly CreatedGuest[]): Promise<void> {
  if (owner === '') return
  const customers = await ask(() => api.GET('/sub-users', { cache: 'no-store' }))
  const uuids = customers.find(({ id }) => id === owner)?.container_uuids ?? []
  const body = { container_names: [...uuids, ...guests.map(({ uuid }) => uuid)] }
  await send(() => api.PATCH('/sub-users/{id}', { params: { path: { id: Number(owner) } }, body }))
}

async function attempt(label: Key, guest: string, change: () => Promise<void>): Promise<Leftover[]> {
  try {
    await change()
    return []
  } catch (thrown) {
    return [{ guest, label, failure: asFailure(thrown) }]
  }
}
