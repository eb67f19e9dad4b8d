import { randomUUID } from 'node:crypto'
import { Coalescer } from '../../../shared/async/coalescer.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import type { Store, StoreClient } from '../../store/store.js'
import { GuestKeys, parseReservation } from './guest-keys.js'
import { ReservedNames } from './reserved-names.js'
import { GuestReleases } from './guest-releases.js'
import {
  isRegistered,
  planClaims,
  type GuestClaim,
  type Refusal,
  type StoredClaims,
  type Reservation,
} from './plan-claims.js'
import {
  planReservations,
  type ReservationOutcome,
  type ReservationRequest,
  type ReservationResult,
} from './plan-reservations.js'
import { RoomStore } from './room-store.js'

/** Maximum number of claims in a transaction, and of reservations in a read. */
const claimBatch = 200

interface WaitingRequest extends ReservationRequest {
  outcome?: ReservationOutcome
}

/**
 * Ids, uuids and names of guests, which are unique among all gateways that share the store (see `GuestKeys`).
 *
 * The resources of a new guest are reserved and released in the same transactions, see `RoomStore`.
 */
export class GuestRegistry {
  readonly #keys: GuestKeys
  readonly #rooms: RoomStore
  readonly #releases: GuestReleases
  /** Changes names of existing guests. */
  readonly names: ReservedNames
  #waiting: WaitingRequest[] = []
  readonly #rounds = new Coalescer(() => this.#reserveWaiting())

  constructor(private readonly store: Store) {
    this.#keys = new GuestKeys(store)
    this.#rooms = new RoomStore(store)
    this.#releases = new GuestReleases(store, this.#keys, this.#rooms)
    this.names = new ReservedNames(store, this.#keys)
  }

  /** Finds the reservation that an earlier attempt of the operation made. */
  async findByOperation(operationId: string): Promise<Reservation | undefined> {
    return this.store.run('read the reservation of a name', (client) => this.#findByOperation(client, operationId))
  }

  /** Finds the reservation of a guest by its id, uuid or name. */
  async find(ref: string): Promise<Reservation | undefined> {
    return this.store.run('read the reservation of a name', async (client) => {
      const [byId, byName] = await Promise.all([client.hGet(this.#keys.ids, ref), client.get(this.#keys.name(ref))])
      return parseReservation(await client.hGet(this.#keys.guests, byId ?? byName ?? ref.toLowerCase()))
    })
  }

  /**
   * Reserves a name and resources of a host, and assigns an id and a uuid. A repeated operation gets the same
   * reservation.
   * All waiting requests share one transaction. If this gateway ran many transactions, transactions of other gateways
   * would fail again and again.
   * @throws {BerthError} `name_conflict`, `store_unavailable`, or the error of `place`
   */
  async reserve(request: Omit<ReservationRequest, 'uuid'>): Promise<ReservationResult> {
    const waiting: WaitingRequest = { ...request, uuid: randomUUID() }
    this.#waiting.push(waiting)
    await this.#rounds.run()
    const outcome = waiting.outcome!
    if ('error' in outcome) throw outcome.error
    return outcome
  }

  async #reserveWaiting(): Promise<void> {
    const requests = this.#waiting
    this.#waiting = []
    const outcomes = await this.store.transact('reserve the names and ids of guests', (client) =>
      this.#reserveAll(client, requests),
    )
    for (const [at, request] of requests.entries()) request.outcome = outcomes[at]!
  }

  async #reserveAll(client: StoreClient, requests: readonly ReservationRequest[]) {
    const { lastId, ...stored } = await this.#watchAll(client, requests)
    const freeIds = await this.#findFreeIds(client, lastId, requests)
    const { outcomes, add, rooms } = planReservations(requests, { ...stored, freeIds }, steadyClock.now())
    if (add.length === 0) {
      await client.unwatch()
      return outcomes
    }
    const steps = this.#write(client, add)
    steps.set(this.#keys.nextId, String(add.at(-1)!.id))
    this.#rooms.put(steps, rooms)
    await steps.exec()
    return outcomes
  }

  /** Watches and then reads the data on which reservations depend. A change makes the transaction fail. */
  async #watchAll(client: StoreClient, requests: readonly ReservationRequest[]) {
    const names = requests.map(({ name }) => this.#keys.name(name))
    const operations = requests.map(({ operationId }) => this.#keys.operation(operationId))
    const [, uuids, owners, rooms, lastId] = await Promise.all([
      client.watch([...names, ...operations, this.#keys.nextId, this.#rooms.key]),
      client.mGet(operations),
      client.mGet(names),
      this.#rooms.read(client),
      client.get(this.#keys.nextId),
    ])
    const known = uuids.filter((uuid) => uuid !== null)
    const earlier = known.length > 0 ? await client.hmGet(this.#keys.guests, known) : []
    const reservations = earlier.flatMap((text) => parseReservation(text) ?? [])
    return {
      earlier: new Map(reservations.map((reservation) => [reservation.operationId, reservation])),
      names: new Set(requests.flatMap(({ name }, at) => (owners[at] === null ? [] : [name.toLowerCase()]))),
      rooms,
      lastId: Number(lastId ?? 0),
    }
  }

  /** Frees the reservations of deleted guests. Ignores guests that are unknown or belong to another host. */
  async release(hostId: string, uuids: readonly string[]): Promise<void> {
    await this.#releases.release(hostId, uuids)
  }

  /**
   * Registers reported guests that the store lacks. Raises the counter of ids to the highest reported id.
   * @returns the reasons for guests that do not belong to this host, by uuid of the guest
   */
  async claim(hostId: string, claims: readonly GuestClaim[]): Promise<Map<string, Refusal>> {
    const refused = new Map<string, Refusal>()
    for (let at = 0; at < claims.length; at += claimBatch) {
      const batch = claims.slice(at, at + claimBatch)
      const plan = await this.#claimBatch(hostId, batch)
      plan.forEach((refusal, uuid) => refused.set(uuid, refusal))
    }
    return refused
  }

  /**
   * Frees reservations that were made before `madeBeforeMs`, unless `isKept` returns true for them.
   * @param isStuck true if the guest did not get its `newName`; only this name is then freed
   * @param isDeleted false for a guest that possibly still exists, because its host was removed from the fleet
   * @returns the reservations that were freed
   */
  async sweep(
    isKept: (held: Reservation) => boolean,
    madeBeforeMs: number,
    isStuck: (held: Reservation) => boolean = () => false,
    isDeleted: (held: Reservation) => boolean = () => true,
  ): Promise<Reservation[]> {
    const [stale, stuck] = [new Map<string, Reservation>(), new Map<string, Reservation>()]
    for await (const some of this.#readAll())
      for (const one of some)
        if (one.reservedAtMs < madeBeforeMs && !isKept(one)) stale.set(one.uuid, one)
        else if (isStuck(one)) stuck.set(one.uuid, one)
    const releases = [...stale.values()].map((one) => this.#releases.release(one.hostId, [one.uuid], isDeleted(one)))
    await Promise.all(releases)
    for (const { uuid, newName = '' } of stuck.values()) await this.names.release(uuid, newName)
    return [...stale.values()]
  }

  /** Yields all reservations in small parts, because parsing all at once would delay requests. Duplicates can occur. */
  async *#readAll(): AsyncIterable<Reservation[]> {
    let cursor = '0'
    do {
      const { cursor: next, entries } = await this.store.run('read the reservations of names', (client) =>
        client.hScan(this.#keys.guests, cursor, { COUNT: claimBatch }),
      )
      yield entries.flatMap(({ value }) => parseReservation(value) ?? [])
      cursor = next
    } while (cursor !== '0')
  }

  /** Returns the uuids of guests that no longer exist. Uuids are never used again. */
  async findGone(uuids: readonly string[]): Promise<string[]> {
    if (uuids.length === 0) return []
    const found = await this.store.run('look up the owners of guests', (client) =>
      client.hmGet(this.#keys.guests, [...uuids]),
    )
    return uuids.filter((_, index) => !found[index])
  }

  /**
   * Calls the listener after changes of reservations and when the store is available again. Call before
   * `store.start()`.
   */
  onChange(listener: () => void): void {
    this.store.onInvalidate(this.#keys.guests, listener)
    this.store.on('up', listener)
  }

  async releaseHost(hostId: string): Promise<void> {
    await this.sweep(
      (held) => held.hostId !== hostId,
      Infinity,
      undefined,
      () => false,
    )
  }

  /** Usually, the store already has the guests of all claims. Then no transaction is needed. */
  async #claimBatch(hostId: string, batch: readonly GuestClaim[]): Promise<ReadonlyMap<string, Refusal>> {
    const claims = await this.#findUnregistered(hostId, batch)
    if (claims.length === 0) return new Map()
    const found = await this.store.run('look up the owners of guests', (client) =>
      this.#planClaims(client, hostId, claims),
    )
    if (found.isRegistered) return found.refused
    return this.store.transact('register guests of a host', async (client) => {
      await client.watch([...claims.map(({ name }) => this.#keys.name(name)), this.#keys.nextId])
      const { add, renamed, refused, highestId, isRegistered } = await this.#planWatched(client, hostId, claims)
      if (isRegistered) {
        await client.unwatch()
        return refused
      }
      const now = steadyClock.now()
      const steps = this.#write(
        client,
        add.map((claim) => ({ ...claim, hostId, operationId: '', reservedAtMs: now })),
      )
      for (const one of renamed) this.names.put(steps, one)
      if (highestId !== undefined) steps.set(this.#keys.nextId, String(highestId))
      await steps.exec()
      return refused
    })
  }

  /**
   * Finds the claims that differ from the reservations of their guests, or are above the counter of ids. All other names
   * and ids need no check, because a reservation is written in one transaction with its name and id.
   */
  async #findUnregistered(hostId: string, claims: readonly GuestClaim[]): Promise<GuestClaim[]> {
    const [reserved, counter] = await this.store.run('look up the owners of guests', (client) =>
      Promise.all([this.#readReservations(client, claims), client.get(this.#keys.nextId)]),
    )
    const lastId = Number(counter ?? 0)
    return claims.filter((claim, at) => claim.id > lastId || !isRegistered(hostId, claim, reserved[at]))
  }

  /** Plans claims in a transaction. If a guest is renamed, watches the reservations and plans again. */
  async #planWatched(client: StoreClient, hostId: string, claims: readonly GuestClaim[]) {
    const plan = await this.#planClaims(client, hostId, claims)
    if (plan.renamed.length === 0) return plan
    await client.watch(this.#keys.guests)
    return this.#planClaims(client, hostId, claims)
  }

  /** @returns the plan; `highestId`: new value of the id counter, undefined if the counter is high enough */
  async #planClaims(client: StoreClient, hostId: string, claims: readonly GuestClaim[]) {
    const [held, counter] = await Promise.all([this.#readHeld(client, claims), client.get(this.#keys.nextId)])
    const { add, renamed, refused } = planClaims(hostId, claims, held)
    const highest = Math.max(0, ...claims.map(({ id }) => id))
    const highestId = Number(counter ?? 0) < highest ? highest : undefined
    const isRegistered = add.length + renamed.length === 0 && highestId === undefined
    return { add, renamed, refused, highestId, isRegistered }
  }

  async #readHeld(client: StoreClient, claims: readonly GuestClaim[]): Promise<StoredClaims> {
    const [guests, ids, owners] = await Promise.all([
      this.#readReservations(client, claims),
      client.hmGet(
        this.#keys.ids,
        claims.map(({ id }) => String(id)),
      ),
      client.mGet(claims.map(({ name }) => this.#keys.name(name))),
    ])
    const unknown = claims.filter((_, index) => !guests[index])
    return {
      former: await this.#readFormer(client, unknown),
      byUuid: new Map(guests.flatMap((reservation) => (reservation ? [[reservation.uuid, reservation]] : []))),
      byId: new Map(claims.flatMap(({ id }, index) => (ids[index] ? [[id, ids[index]]] : []))),
      byName: new Map(
        claims.flatMap(({ name }, index) => (owners[index] ? [[name.toLowerCase(), owners[index]]] : [])),
      ),
    }
  }

  async #readReservations(client: StoreClient, claims: readonly GuestClaim[]) {
    const texts = await client.hmGet(
      this.#keys.guests,
      claims.map(({ uuid }) => uuid),
    )
    return texts.map(parseReservation)
  }

  async #readFormer(client: StoreClient, claims: readonly GuestClaim[]): Promise<Map<string, number>> {
    if (claims.length === 0) return new Map()
    const generations = await client.mGet(claims.map(({ uuid }) => this.#keys.former(uuid)))
    return new Map(claims.flatMap(({ uuid }, at) => (generations[at] ? [[uuid, Number(generations[at])]] : [])))
  }

  #write(client: StoreClient, reservations: readonly Reservation[]) {
    const steps = client.multi()
    for (const reservation of reservations) {
      const { uuid, id, name, hostId, operationId, reservedAtMs, generation, hostPorts } = reservation
      const stored = { uuid, id, name, hostId, operationId, reservedAtMs, generation, hostPorts }
      steps.hSet(this.#keys.guests, uuid, JSON.stringify(stored))
      steps.hSet(this.#keys.ids, String(id), uuid).set(this.#keys.name(name), uuid)
      if (operationId) steps.set(this.#keys.operation(operationId), uuid)
    }
    return steps
  }

  /** Returns a free id for each request. Skips ids of reported guests, in case the store has lost the counter. */
  async #findFreeIds(client: StoreClient, lastId: number, requests: readonly ReservationRequest[]): Promise<number[]> {
    const { isShown } = requests[0]!
    const free: number[] = []
    for (let first = lastId + 1; free.length < requests.length; first += requests.length) {
      const ids = requests.map((_, at) => first + at)
      const uuids = await client.hmGet(this.#keys.ids, ids.map(String))
      free.push(...ids.filter((id, at) => !uuids[at] && !isShown(String(id))))
    }
    return free
  }

  async #findByOperation(client: StoreClient, operationId: string): Promise<Reservation | undefined> {
    const uuid = await client.get(this.#keys.operation(operationId))
    return uuid === null ? undefined : parseReservation(await client.hGet(this.#keys.guests, uuid))
  }
}
