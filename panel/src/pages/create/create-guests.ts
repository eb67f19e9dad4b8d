import { api, ask, send } from '../../api/client.ts'
import { ApiFailure, asFailure } from '../../api/failure.ts'
import type { CreatedGuest } from '../../api/types.ts'
import { power } from '../../guests/actions.ts'
import { assignGuests } from '../../guests/assign.ts'
import { presetFirewall } from '../../guests/firewall-presets.ts'
import type { Key } from '../../i18n/text.svelte.ts'
import { planRequest, type CreateForm } from './form.ts'

/** A guest that could not be created, or a setting that could not be changed after the guest was created. */
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
 * Submits the creation of one or several guests. `completeGuests` then changes the other settings of the form.
 * @param key idempotency key: a repeated request with the same key creates nothing
 * @throws {ApiFailure} if no guest is created
 */
export async function createGuests(form: CreateForm, key: string): Promise<Creation> {
  const { guests, refused } = await order(form, key)
  return { guests, leftovers: refused.map(asLeftover) }
}

/** Changes settings that the creation of a guest cannot contain. @returns the settings that were not changed */
export async function completeGuests(form: CreateForm, guests: readonly CreatedGuest[]): Promise<Leftover[]> {
  const leftovers = await Promise.all(guests.map((guest) => changeSettings(form, guest)))
  const uuids = guests.map(({ uuid }) => uuid)
  const notAssigned = form.owner === '' ? [] : await attempt('guest.owner', '', () => assignGuests(form.owner, uuids))
  return [...leftovers.flat(), ...notAssigned]
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

async function changeSettings(form: CreateForm, guest: CreatedGuest): Promise<Leftover[]> {
  const notProtected = await protectAndStart(form.firewall, guest)
  return [...notProtected, ...(await attempt('backups.title', guest.name, () => scheduleBackups(form, guest)))]
}

/**
 * Sets the firewall, and then starts the guest, which was created without a start. A failure leaves the guest stopped.
 */
async function protectAndStart(firewall: CreateForm['firewall'], guest: CreatedGuest): Promise<Leftover[]> {
  if (firewall === '') return []
  const params = paramsOf(guest)
  const body = presetFirewall(firewall)
  const failed = await attempt('create.notProtected', guest.name, async () => {
    await send(() => api.PUT('/containers/{id}/firewall', { params, body }))
  })
  return failed.length > 0 ? failed : attempt('create.notStarted', guest.name, () => power(guest, 'start'))
}

async function scheduleBackups({ backupTarget }: CreateForm, guest: CreatedGuest): Promise<void> {
  if (backupTarget === '') return
  const body = { enabled: true, interval_hours: 24, time: '03:00', retention: 7, target_id: backupTarget }
  await send(() => api.POST('/containers/{id}/backups/schedule', { params: paramsOf(guest), body }))
}

const paramsOf = ({ id }: CreatedGuest) => ({ path: { id: String(id) } })

async function attempt(label: Key, guest: string, change: () => Promise<void>): Promise<Leftover[]> {
  try {
    await change()
    return []
  } catch (thrown) {
    return [{ guest, label, failure: asFailure(thrown) }]
  }
}
