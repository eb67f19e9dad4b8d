import { conflict, notFound } from '../../../shared/errors.js'
import type { Store, StoreClient } from '../../store/store.js'
import type { Reservation } from '../placement/plan-claims.js'
import { planBegin, planCancel, planSwitch, type GuestOwner } from '../placement/plan-owner.js'

/** A move that has begun. It is stored until both hosts know who owns the guest. */
export interface StoredMove {
  /** Id of the move and of the operation on the source host. */
  readonly id: string
  readonly uuid: string
  readonly fromHostId: string
  readonly toHostId: string
  readonly beganAtMs: number
  /** The decision. Absent: the move is not decided yet. */
  readonly decided?: { readonly ownerId: string; readonly generation: number }
}

/**
 * Owners of guests and their moves, which all gateways share. Each change is one transaction of the store.
 *
 * | key | holds |
 * |---|---|
 * | `guests` | hash: uuid → Reservation as JSON, with the owner (see GuestRegistry) |
 * | `guest-moves` | hash: uuid → StoredMove as JSON |
 */
export class MoveStore {
  constructor(private readonly store: Store) {}

  /** Returns all moves that have begun and whose end some host may not know. */
  async list(): Promise<StoredMove[]> {
    const found = await this.store.run('read moves', (client) => client.hVals(this.#movesKey))
    return found.map((text) => JSON.parse(text) as StoredMove)
  }

  async find(uuid: string): Promise<StoredMove | undefined> {
    return (await this.list()).find((move) => move.uuid === uuid)
  }

  /** Returns the generation of the guest's owner. */
  async readGeneration(uuid: string): Promise<number> {
    const text = await this.store.run('read owner', (client) => client.hGet(this.#guestsKey, uuid))
    return text ? ((JSON.parse(text) as Reservation).generation ?? 0) : 0
  }

  /**
   * Begins a move from the guest's present owner.
   * @throws {BerthError} `guest_moving` if the guest is moving already or belongs to another host
   */
  async begin(move: Omit<StoredMove, 'decided'>): Promise<void> {
    const isBegun = await this.#change('begin move', move.uuid, ({ owner }) => {
      const next = planBegin(owner, move.fromHostId, { id: move.id, toHostId: move.toHostId })
      if (!next) throw conflict('guest_moving', 'the container is moving already, or belongs to another host')
      return { owner: next, move, result: true }
    })
    if (!isBegun) throw notFound('container')
  }

  /** Decides a move: the one durable write that changes the owner, or keeps it. Does nothing if it is decided already. */
  async decide({ id, uuid }: StoredMove, decision: 'switch' | 'cancel'): Promise<void> {
    const plan = decision === 'switch' ? planSwitch : planCancel
    await this.#change('decide move', uuid, ({ owner, move }) => {
      const next = plan(owner, id)
      if (!next || move?.id !== id) return undefined
      const decided = { ownerId: next.hostId, generation: next.generation }
      return { owner: next, move: { ...move, decided }, result: undefined }
    })
  }

  /** Forgets a move that has ended, when both hosts know the result. */
  async forget({ id, uuid }: StoredMove): Promise<void> {
    await this.store.transact('forget move', async (client) => {
      await client.watch(this.#movesKey)
      const text = await client.hGet(this.#movesKey, uuid)
      if (!text || (JSON.parse(text) as StoredMove).id !== id) return void (await client.unwatch())
      await client.multi().hDel(this.#movesKey, uuid).exec()
    })
  }

  async #change<T>(step: string, uuid: string, plan: (now: Present) => Change<T> | undefined): Promise<T | undefined> {
    return this.store.transact(step, async (client) => {
      await client.watch([this.#guestsKey, this.#movesKey])
      const { reservation, move } = await this.#read(client, uuid)
      const change = reservation && plan({ owner: ownerOf(reservation), move })
      if (!change) return void (await client.unwatch())
      const { owner } = change
      const { move: _before, ...rest } = reservation
      const changed: Reservation = { ...rest, ...owner }
      await client
        .multi()
        .hSet(this.#guestsKey, uuid, JSON.stringify(changed))
        .hSet(this.#movesKey, uuid, JSON.stringify(change.move))
        .exec()
      return change.result
    })
  }

  async #read(client: StoreClient, uuid: string) {
    const [guest, move] = [await client.hGet(this.#guestsKey, uuid), await client.hGet(this.#movesKey, uuid)]
    return {
      reservation: guest ? (JSON.parse(guest) as Reservation) : undefined,
      move: move ? (JSON.parse(move) as StoredMove) : undefined,
    }
  }

  get #guestsKey(): string {
    return this.store.key('guests')
  }

  get #movesKey(): string {
    return this.store.key('guest-moves')
  }
}

interface Present {
  readonly owner: GuestOwner
  readonly move: StoredMove | undefined
}

interface Change<T> {
  readonly owner: GuestOwner
  readonly move: StoredMove
  readonly result: T
}

function ownerOf({ hostId, generation = 0, move }: Reservation): GuestOwner {
  return { hostId, generation, ...(move && { move }) }
}
