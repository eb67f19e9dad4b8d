import { conflict } from '../../../shared/errors.js'
import type { ChosenHost } from './placement.js'
import type { Reservation } from './plan-claims.js'
import type { ReservedRoom, ReservedRooms } from './plan-rooms.js'

/** A request to reserve an id, a uuid, a name and resources for a new guest. */
export interface ReservationRequest {
  readonly name: string
  readonly operationId: string
  readonly uuid: string
  /** True if a host has reported a guest with this name or id, whose reservation the store can have lost. */
  readonly isShown: (ref: string) => boolean
  /** Chooses a host and resources, or throws. `rooms` includes the reservations of earlier requests. */
  readonly place: (rooms: ReservedRooms) => ChosenHost
}

/** The data in the store on which the reservations for new guests depend. */
export interface StoredReservations {
  /** Reservations of earlier attempts, by operation id. */
  readonly earlier: ReadonlyMap<string, Reservation>
  /** Names of guests in lower case. */
  readonly names: ReadonlySet<string>
  readonly rooms: ReservedRooms
  /** Unused ids, one for each request. */
  readonly freeIds: readonly number[]
}

export type ReservationResult = { readonly reservation: Reservation; readonly repeated: boolean }
export type ReservationOutcome = ReservationResult | { readonly error: unknown }

export interface ReservationsPlan {
  /** One outcome for each request, in the order of the requests. */
  readonly outcomes: readonly ReservationOutcome[]
  readonly add: readonly Reservation[]
  readonly rooms: ReadonlyMap<string, ReservedRoom | undefined>
}

/** Plans reservations for requests, one after another. Each plan considers the reservations before it. */
export function planReservations(
  requests: readonly ReservationRequest[],
  stored: StoredReservations,
  nowMs: number,
): ReservationsPlan {
  const now = {
    earlier: new Map(stored.earlier),
    names: new Set(stored.names),
    rooms: new Map(stored.rooms),
    freeIds: [...stored.freeIds],
  }
  const add: Reservation[] = []
  const rooms = new Map<string, ReservedRoom | undefined>()
  const outcomes = requests.map((request): ReservationOutcome => {
    const known = now.earlier.get(request.operationId)
    if (known) return { reservation: known, repeated: true }
    try {
      const { reservation, changes } = planOne(request, now, nowMs)
      add.push(reservation)
      changes.forEach((room, id) => rooms.set(id, room))
      return { reservation, repeated: false }
    } catch (error) {
      return { error }
    }
  })
  return { outcomes, add, rooms }
}

interface ReservationState {
  readonly earlier: Map<string, Reservation>
  readonly names: Set<string>
  readonly rooms: Map<string, ReservedRoom>
  readonly freeIds: number[]
}

/** @throws {BerthError} `name_conflict`, or the error of `place` */
function planOne(
  { name, operationId, uuid, isShown, place }: ReservationRequest,
  now: ReservationState,
  nowMs: number,
) {
  const { hostId, room, changes, hostPorts } = place(now.rooms)
  if (now.names.has(name.toLowerCase()) || isShown(name))
    throw conflict('name_conflict', `a container named ${name} already exists`)
  const id = now.freeIds.shift()!
  const chosen = hostPorts && { hostPorts }
  const reservation = { name, operationId, hostId, uuid, id, reservedAtMs: nowMs, ...chosen }
  const own = { ...room, uuid }
  now.earlier.set(operationId, reservation)
  now.names.add(name.toLowerCase())
  now.rooms.set(operationId, own)
  return { reservation, changes: new Map([...changes, [operationId, own]]) }
}
