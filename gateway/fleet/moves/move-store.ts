import { conflict, notFound } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import type { Store, StoreClient } from '../../store/store.js'
import { GuestKeys, parseReservation } from '../placement/guest-keys.js'
import type { Reservation } from '../placement/plan-claims.js'
import { planBegin, planCancel, planReturn, planSwitch, type GuestOwner } from '../placement/plan-owner.js'
import { planSettled, type ReservedRoom } from '../placement/plan-rooms.js'
import { RoomStore } from '../placement/room-store.js'

/** A move that has begun. It is stored until both hosts know which of them owns the guest. */
export interface StoredMove {
  /** Id of the move and of the operation on the source host. */
  readonly id: string
  readonly uuid: string
  readonly fromHostId: string
  /** Host to which the guest moves. Empty: not known, because the store has lost the move. */
  readonly toHostId: string
  readonly beganAtMs: number
  /** Ownership generation of the guest when the move began. Absent in moves that an earlier version began. */
  readonly generation?: number
  /** True if the guest ran when the move began. Absent in moves that an earlier version began. */
  readonly isRunning?: boolean
  /** The decision. Absent: the move is not decided yet. */
  readonly decided?: { readonly ownerId: string; readonly generation: number }
}

/** Maximum time in ms for which a move or restore keeps resources reserved. It exceeds the duration of any transfer. */
export const moveRoomMs = 24 * 3_600_000

/**
 * - `switch`: the target becomes the owner.
 * - `cancel`: the owner stays the same.
 * - `return`: after a switch, the source becomes the owner again.
 */
export type MoveDecision = 'switch' | 'cancel' | 'return'

/**
 * Owners of guests and their moves, which all gateways share. Each change is one transaction of the store.
 *
 * | key | holds |
 * |---|---|
 * | `guests` | hash: uuid → Reservation as JSON, with the owner (see GuestRegistry) |
 * | `guest-moves` | hash: uuid → StoredMove as JSON |
 *
 * A move that has begun keeps the resources on its target reserved until its end, see `RoomStore`.
 */
export class MoveStore {
  readonly #keys: GuestKeys
  readonly #rooms: RoomStore

  constructor(private readonly store: Store) {
    this.#keys = new GuestKeys(store)
    this.#rooms = new RoomStore(store)
  }

  /** Returns all stored moves. A move stays stored until both hosts know its end. */
  async list(): Promise<StoredMove[]> {
    const found = await this.store.run('read the moves of containers', (client) => client.hVals(this.#keys.moves))
    return found.map((text) => JSON.parse(text) as StoredMove)
  }

  async find(uuid: string): Promise<StoredMove | undefined> {
    return (await this.list()).find((move) => move.uuid === uuid)
  }

  /** True if the host takes part in a move that is not decided yet. */
  async isMoving(hostId: string): Promise<boolean> {
    const moves = await this.list()
    return moves.some(({ fromHostId, toHostId, decided }) => !decided && [fromHostId, toHostId].includes(hostId))
  }

  /** Returns the ownership generation of a guest. 0: not known. */
  async readGeneration(uuid: string): Promise<number> {
    const text = await this.store.run('read the owner of a container', (client) => client.hGet(this.#keys.guests, uuid))
    return parseReservation(text)?.generation ?? 0
  }

  /**
   * Begins a move from the guest's present owner.
   * @param name name that the guest will have on the target. It must be the present name. No rename may be in progress.
   * @throws {BerthError} `guest_moving` if the guest already moves or belongs to another host; `invalid_state` if the
   * guest is being renamed; `not_found`
   */
  async begin(move: Omit<StoredMove, 'decided'>, name: string): Promise<void> {
    const period = { untilMs: steadyClock.now() + moveRoomMs, lifetimeMs: moveRoomMs }
    await this.#change('begin the move of a container', move, ({ owner, names, move: earlier, room }) => {
      if (!owner) throw notFound('container')
      if (names?.newName !== undefined || names?.name !== name)
        throw conflict('invalid_state', 'the container is being renamed: move it when it has its new name')
      if (names?.evacuatedFrom !== undefined)
        throw conflict('guest_moving', 'the container is being restored after the failure of its host')
      const next = planBegin(owner, move.fromHostId, { id: move.id, toHostId: move.toHostId })
      // `earlier` can be a move that has ended. It stays stored until both of its hosts know the result.
      if (!next || earlier)
        throw conflict(
          'guest_moving',
          'another move of the container has not ended, or the container is no longer on the source host',
        )
      return { owner: next, move: { ...move, generation: owner.generation }, room: room && { ...room, ...period } }
    })
  }

  /**
   * Decides a move in one durable write. The write changes the guest's owner or confirms the present owner.
   * @returns false if nothing was written, because the move is already decided or has ended
   */
  async decide({ id, uuid }: StoredMove, decision: MoveDecision): Promise<boolean> {
    return this.#change('decide the move of a container', { id, uuid }, ({ owner, move, room }) => {
      if (move?.id !== id) return undefined
      const next = planDecision(ownerIn(move, owner), move, decision)
      if (!next) return undefined
      const decided = { ownerId: next.hostId, generation: next.generation }
      return { owner: next, move: { ...move, decided }, room: decision === 'switch' ? room : undefined }
    })
  }

  /**
   * Gives a guest back to the source of a move that the store has lost. Call it only if no other host owns the guest.
   * Does nothing if the store has another owner or another move of the guest.
   */
  async recover({ uuid, hostId, moveId, generation }: LostMove): Promise<boolean> {
    return this.#change('recover the move of a container', { id: moveId, uuid }, ({ owner, move }) => {
      if (move || owner?.move || (owner && owner.hostId !== hostId)) return undefined
      // The lost decision about this move possibly used `generation + 1`. The new generation must be higher.
      const next = { hostId, generation: Math.max(owner?.generation ?? 0, generation + 1) + 1 }
      const decided = { ownerId: hostId, generation: next.generation }
      return {
        owner: next,
        move: { id: moveId, uuid, fromHostId: hostId, toHostId: '', beganAtMs: Date.now(), decided },
        room: undefined,
      }
    })
  }

  /**
   * True if the store contains this decision and replicas have confirmed it. Otherwise, the decision possibly exists
   * only in the present master, and a failover would lose it.
   */
  async confirmDecided({ id, uuid, decided }: StoredMove): Promise<boolean> {
    const { move } = await this.store.transact('confirm the move of a container', (client) =>
      this.#read(client, { id, uuid }),
    )
    return (
      move?.id === id && move.decided?.ownerId === decided?.ownerId && move.decided?.generation === decided?.generation
    )
  }

  /** Forgets a move that has ended. Call it when both hosts know the result. */
  async forget({ id, uuid }: StoredMove): Promise<void> {
    await this.store.transact('remove the record of a move', async (client) => {
      await client.watch(this.#keys.moves)
      const { move, room } = await this.#read(client, { id, uuid })
      if (move?.id !== id) return void (await client.unwatch())
      const steps = client.multi()
      steps.hDel(this.#keys.moves, uuid)
      // The reservation stays a little longer, because other gateways may not have received the target's report yet.
      if (room) this.#rooms.put(steps, new Map([[id, planSettled(room, steadyClock.now())]]))
      await steps.exec()
    })
  }

  /** @returns false if the plan changes nothing */
  async #change(step: string, of: MoveIds, plan: (now: Present) => Change | undefined): Promise<boolean> {
    const { id, uuid } = of
    return this.store.transact(step, async (client) => {
      await client.watch([this.#keys.guests, this.#keys.moves])
      const { reservation, move, room } = await this.#read(client, of)
      const change = plan({ owner: reservation && ownerOf(reservation), names: reservation, move, room })
      if (!change) {
        await client.unwatch()
        return false
      }
      const steps = client.multi()
      steps.hSet(this.#keys.moves, uuid, JSON.stringify(change.move))
      if (reservation) steps.hSet(this.#keys.guests, uuid, JSON.stringify(withOwner(reservation, change.owner)))
      this.#rooms.put(steps, new Map([[id, change.room]]))
      await steps.exec()
      return true
    })
  }

  async #read(client: StoreClient, { id, uuid }: MoveIds) {
    const [guest, move, room] = await Promise.all([
      client.hGet(this.#keys.guests, uuid),
      client.hGet(this.#keys.moves, uuid),
      this.#rooms.find(client, id),
    ])
    return {
      room,
      reservation: parseReservation(guest),
      move: parseMove(move),
    }
  }
}

/** A guest without an owner. The host `hostId` has handed it over in a move that the store has lost. */
export interface LostMove {
  readonly uuid: string
  readonly hostId: string
  readonly moveId: string
  readonly generation: number
}

type MoveIds = Pick<StoredMove, 'id' | 'uuid'>

interface Present {
  /** Stored owner. `undefined`: the guest or its host was removed, or the store has lost the reservation. */
  readonly owner: GuestOwner | undefined
  readonly names: Pick<Reservation, 'name' | 'newName' | 'evacuatedFrom'> | undefined
  readonly move: StoredMove | undefined
  /** Resources that are reserved on the target. `undefined`: none. */
  readonly room: ReservedRoom | undefined
}

interface Change {
  readonly owner: GuestOwner
  readonly move: StoredMove
  /** Reservation to store. `undefined`: the resources on the target are no longer reserved. */
  readonly room: ReservedRoom | undefined
}

/** Returns the owner of a moving guest from its reservation, or from the move if the store has lost the reservation. */
function ownerIn({ id, fromHostId, toHostId, generation = 0, decided }: StoredMove, owner?: GuestOwner): GuestOwner {
  if (decided) return owner ?? { hostId: decided.ownerId, generation: decided.generation }
  const known = owner ?? { hostId: fromHostId, generation }
  return { ...known, move: known.move ?? { id, toHostId } }
}

function planDecision(owner: GuestOwner, move: StoredMove, decision: MoveDecision): GuestOwner | undefined {
  const { id, fromHostId, toHostId, decided } = move
  if (decision === 'cancel') return planCancel(owner, id)
  if (decision === 'switch') return owner.hostId === fromHostId ? planSwitch(owner, id) : undefined
  return decided && planReturn(owner, { fromHostId, toHostId, generation: decided.generation })
}

export function parseMove(text: string | null | undefined): StoredMove | undefined {
  return text ? (JSON.parse(text) as StoredMove) : undefined
}

function withOwner({ move: _before, ...rest }: Reservation, owner: GuestOwner): Reservation {
  return { ...rest, ...owner }
}

function ownerOf({ hostId, generation = 0, move }: Reservation): GuestOwner {
  return { hostId, generation, ...(move && { move }) }
}
