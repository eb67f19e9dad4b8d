import { conflict, notFound } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import type { Transaction } from '../../store/leased-writes.js'
import type { Store } from '../../store/store.js'
import { parseReservation, type GuestKeys } from './guest-keys.js'
import type { Renaming, Reservation } from './plan-claims.js'

/** Changes the reserved names of guests. During a rename, the old and the new name of the guest are reserved. */
export class ReservedNames {
  constructor(
    private readonly store: Store,
    private readonly keys: GuestKeys,
  ) {}

  /**
   * Reserves another name for a guest. Replaces an earlier reserved name that the guest did not get.
   * @throws {BerthError} `not_found`, `name_conflict`, `guest_moving`, `store_unavailable`
   */
  async reserve(uuid: string, newName: string): Promise<void> {
    await this.store.transact('reserve a name', async (client) => {
      const key = this.keys.name(newName)
      await client.watch([this.keys.guests, key])
      const [text, owner] = await Promise.all([client.hGet(this.keys.guests, uuid), client.get(key)])
      const held = parseReservation(text)
      if (!held) throw notFound('container')
      if (held.move) throw conflict('guest_moving', 'the container is being moved to another host')
      if (owner !== null && owner !== uuid)
        throw conflict('name_conflict', `name: a container named ${newName} already exists`)
      const steps = client.multi()
      this.#drop(steps, held, [held.name, newName])
      steps
        .set(key, uuid)
        .hSet(this.keys.guests, uuid, JSON.stringify({ ...held, newName, renamedAtMs: steadyClock.now() }))
      await steps.exec()
    })
  }

  /** Frees a name that was reserved with `reserve`, because the guest did not get it. */
  async release(uuid: string, newName: string): Promise<void> {
    await this.store.transact('release a name', async (client) => {
      await client.watch([this.keys.guests, this.keys.name(newName)])
      const held = parseReservation(await client.hGet(this.keys.guests, uuid))
      if (held?.newName !== newName) return void (await client.unwatch())
      const { newName: _, renamedAtMs: _at, ...rest } = held
      const steps = client.multi()
      this.#drop(steps, held, [held.name])
      steps.hSet(this.keys.guests, uuid, JSON.stringify(rest))
      await steps.exec()
    })
  }

  /** Stores the new name of a guest, and frees its other names. The caller must WATCH the reservations. */
  put(steps: Transaction, { before, name, reportedAt }: Renaming): void {
    const { newName: _, renamedAtMs: _at, namedAt: _namedAt, ...rest } = before
    const named: Reservation = { ...rest, name, ...(reportedAt && { namedAt: reportedAt }) }
    this.#drop(steps, before, [name])
    steps.set(this.keys.name(name), before.uuid)
    steps.hSet(this.keys.guests, before.uuid, JSON.stringify(named))
  }

  /** Deletes the names of a reservation, except the names in `kept`. */
  #drop(steps: Transaction, { name, newName }: Reservation, kept: readonly string[]): void {
    const keptKeys = kept.map((one) => this.keys.name(one))
    const keys = [name, ...(newName === undefined ? [] : [newName])].map((one) => this.keys.name(one))
    for (const key of keys) if (!keptKeys.includes(key)) steps.del(key)
  }
}
