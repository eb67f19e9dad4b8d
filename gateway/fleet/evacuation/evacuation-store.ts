import { conflict, notFound } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import type { Store, StoreClient } from '../../store/store.js'
import { GuestKeys, parseReservation } from '../placement/guest-keys.js'
import type { Reservation } from '../placement/plan-claims.js'
import { moveRoomMs, parseMove, type StoredMove } from '../moves/move-store.js'
import { planEvacuate, planReinstate, type GuestOwner } from '../placement/plan-owner.js'
import { isOver } from './broken-moves.js'
import { planSettled, type ReservedRoom } from '../placement/plan-rooms.js'
import { RoomStore } from '../placement/room-store.js'

/** A guest of a failed host that is being restored on another host. It is stored until the restore has ended. */
export interface StoredEvacuation {
  /** Id of the operation on the target. */
  readonly id: string
  readonly uuid: string
  readonly fromHostId: string
  readonly toHostId: string
  /** Ownership generation in which the target owns the guest. */
  readonly generation: number
  /** The guest as the failed host last reported it, as protobuf in base64. */
  readonly guest: string
  /** Target and id of the backup. Empty: the guest is started from its standby. */
  readonly targetId: string
  readonly backupId: string
  /** Id of the standby from whose copy the guest is started. Absent: it is restored from a backup. */
  readonly standbyId?: string
  /** Ids of backups and standbys that earlier restores found damaged or missing. Absent: none was found. */
  readonly unusable?: readonly string[]
  /** True if the restore failed, so that the failed host is the owner again. The host is informed when it is online. */
  readonly isReinstated?: boolean
}

/**
 * Guests of failed hosts that are being restored on other hosts, shared by all gateways. Each change is one transaction
 * of the store.
 *
 * | key | holds |
 * |---|---|
 * | `guests` | hash: uuid → Reservation as JSON, with the owner (see GuestRegistry) |
 * | `guest-evacuations` | hash: uuid → StoredEvacuation as JSON |
 *
 * An evacuation keeps the resources on its target reserved until the target shows the guest, see `RoomStore`.
 */
export class EvacuationStore {
  readonly #keys: GuestKeys
  readonly #rooms: RoomStore

  constructor(private readonly store: Store) {
    this.#keys = new GuestKeys(store)
    this.#rooms = new RoomStore(store)
  }

  async list(): Promise<StoredEvacuation[]> {
    const found = await this.store.run('read the evacuations of containers', (client) =>
      client.hVals(this.#evacuationsKey),
    )
    return found.map((text) => JSON.parse(text) as StoredEvacuation)
  }

  async find(uuid: string): Promise<StoredEvacuation | undefined> {
    return parse(
      await this.store.run('read the evacuation of a container', (client) => client.hGet(this.#evacuationsKey, uuid)),
    )
  }

  /**
   * Makes the target the owner of the guest, in one durable write. Forgets a canceled move away from the failed host.
   * @throws {BerthError} `guest_moving` if the guest moves, or belongs to another host than the failed one; `not_found`
   */
  async begin(wanted: Omit<StoredEvacuation, 'generation'>): Promise<StoredEvacuation> {
    const period = { untilMs: steadyClock.now() + moveRoomMs, lifetimeMs: moveRoomMs }
    return this.#change('begin the evacuation of a container', wanted, ({ reservation, known, move, room }) => {
      if (!reservation) throw notFound('container')
      const owner = planEvacuate(ownerOf(reservation), wanted.fromHostId, wanted.toHostId)
      if (!owner || (known && !known.isReinstated) || (move && !isOver(move, wanted.fromHostId)))
        throw conflict('guest_moving', 'the container is being moved, or does not belong to the failed host')
      const evacuation = { ...wanted, generation: owner.generation }
      const held = room && { ...room, ...period }
      return {
        reservation: withOwner(reservation, owner, wanted.fromHostId),
        evacuation,
        isMoveForgotten: true,
        room: held,
        result: evacuation,
      }
    })
  }

  /** True if the store contains this evacuation, and replicas have confirmed it. */
  async confirm({ id, uuid }: StoredEvacuation): Promise<boolean> {
    return this.store.transact('confirm the evacuation of a container', async (client) => {
      return parse(await client.hGet(this.#evacuationsKey, uuid))?.id === id
    })
  }

  /** Makes the failed host the owner again. Call it only if the target has no copy of the guest. */
  async reinstate(evacuation: StoredEvacuation): Promise<void> {
    await this.#change('make the failed host the owner of a container again', evacuation, ({ reservation, known }) => {
      const owner = reservation && planReinstate(ownerOf(reservation), evacuation)
      if (known?.id !== evacuation.id || known.isReinstated || !owner) return undefined
      return {
        reservation: withOwner(reservation, owner, evacuation.fromHostId),
        evacuation: { ...evacuation, generation: owner.generation, isReinstated: true },
        room: undefined,
        result: undefined,
      }
    })
  }

  /** Forgets an evacuation that has ended, because the target has the guest or the failed host is the owner again. */
  async forget(evacuation: StoredEvacuation): Promise<void> {
    await this.#change('remove the record of an evacuation', evacuation, ({ reservation, known, room }) => {
      if (known?.id !== evacuation.id) return undefined
      const forgotten = reservation && withOwner(reservation, ownerOf(reservation))
      // The reservation stays a little longer, because other gateways may not have received the target's report yet.
      const settled = room && planSettled(room, steadyClock.now())
      return { reservation: forgotten, evacuation: undefined, room: settled, result: undefined }
    })
  }

  async #change<T>(
    step: string,
    { id, uuid }: Pick<StoredEvacuation, 'id' | 'uuid'>,
    plan: (present: Present) => Change<T> | undefined,
  ): Promise<T> {
    return this.store.transact(step, async (client: StoreClient) => {
      await client.watch([this.#keys.guests, this.#keys.moves, this.#evacuationsKey])
      const [guest, known, move, room] = await Promise.all([
        client.hGet(this.#keys.guests, uuid),
        client.hGet(this.#evacuationsKey, uuid),
        client.hGet(this.#keys.moves, uuid),
        this.#rooms.find(client, id),
      ])
      const present = { reservation: parseReservation(guest), known: parse(known), move: parseMove(move), room }
      const change = plan(present)
      if (!change) {
        await client.unwatch()
        return undefined as T
      }
      const { reservation, evacuation, result } = change
      const steps = client.multi()
      if (reservation) steps.hSet(this.#keys.guests, uuid, JSON.stringify(reservation))
      if (evacuation) steps.hSet(this.#evacuationsKey, uuid, JSON.stringify(evacuation))
      else steps.hDel(this.#evacuationsKey, uuid)
      if (change.isMoveForgotten) steps.hDel(this.#keys.moves, uuid)
      this.#rooms.put(steps, new Map([[id, change.room]]))
      await steps.exec()
      return result
    })
  }

  get #evacuationsKey(): string {
    return this.store.key('guest-evacuations')
  }
}

interface Present {
  readonly reservation: Reservation | undefined
  readonly known: StoredEvacuation | undefined
  readonly move: StoredMove | undefined
  /** Resources that are reserved on the target. `undefined`: none. */
  readonly room: ReservedRoom | undefined
}

interface Change<T> {
  readonly reservation: Reservation | undefined
  /** Undefined: the evacuation is deleted. */
  readonly evacuation: StoredEvacuation | undefined
  /** True if the record of the guest's move is deleted. Absent: false. */
  readonly isMoveForgotten?: boolean
  /** Reservation to store. `undefined`: the resources on the target are no longer reserved. */
  readonly room: ReservedRoom | undefined
  readonly result: T
}

function ownerOf({ hostId, generation = 0, move }: Reservation): GuestOwner {
  return { hostId, generation, ...(move && { move }) }
}

/** @param evacuatedFrom id of the failed host while the guest is being restored on another host */
function withOwner(reservation: Reservation, { hostId, generation }: GuestOwner, evacuatedFrom?: string): Reservation {
  const { evacuatedFrom: _before, ...rest } = reservation
  return { ...rest, hostId, generation, ...(evacuatedFrom !== undefined && { evacuatedFrom }) }
}

function parse(text: string | null | undefined): StoredEvacuation | undefined {
  return text ? (JSON.parse(text) as StoredEvacuation) : undefined
}
