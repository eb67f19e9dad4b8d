import type { Logger } from 'pino'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { addAllocation, type Allocation, type Ratios } from '../../../shared/allocation.js'
import { describeError, toBerthError, type BerthError } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import type { GuestCreationRequest } from '../creation-contract.js'
import type { GuestView } from '../contract.js'
import type { Suggestion } from '../move-contract.js'
import { isDeleted } from '../guest-status.js'
import type { FleetState } from '../view.js'
import { noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import { planMoveTargets, planPlacement, withoutCopy, type Candidate } from './plan-placement.js'
import { planBalance, type BalanceChoice } from './plan-balance.js'
import { noNeighbors, planNeighbors, type GuestToPlace, type Neighbors, type PlacedGuest } from './plan-rules.js'
import {
  isOfMapping,
  planRooms,
  roomLifetimeMs,
  sumRooms,
  type ReservedRoom,
  type ReservedRooms,
  type RoomChanges,
  type RoomPlan,
} from './plan-rooms.js'
import type { RoomStore } from './room-store.js'
import type { FleetPorts } from './fleet-ports.js'
import { reservedPorts } from './plan-ports.js'

export interface PlacementOptions {
  readonly view: FleetState
  readonly rooms: RoomStore
  readonly ratios: Ratios
  readonly ports: Pick<FleetPorts, 'choose'>
  readonly log: Logger
}

/** A host that was chosen, and the changes of reservations that must be stored. */
export interface ChosenHost {
  readonly hostId: string
  readonly room: ReservedRoom
  /** First host port of each mapping of a new guest. Absent: the host chooses them. */
  readonly hostPorts?: readonly number[]
  /** Changes of other reservations that must be stored together with the new reservation. */
  readonly changes: RoomChanges
}

interface NewGuest extends Pick<
  GuestCreationRequest,
  'operationId' | 'spec' | 'hostId' | 'backup' | 'settings' | 'isFromArchive'
> {
  /** True if the host has refused host ports that were chosen before. Default: false. */
  readonly isPortRetry?: boolean
}
type MovingGuest = Pick<GuestView, 'hostId' | 'guest'>

interface TargetRequest {
  readonly toHostId?: string | undefined
  /** Hosts that are chosen only if no other host can take the guest. */
  readonly refusedBy?: readonly string[]
  /** Uuids of guests that leave the same host. Guests that must stay together can leave only if all of them leave. */
  readonly alsoMoving?: readonly string[] | undefined
  /** True if the host restores the guest from a backup, because the guest's present host has failed. */
  readonly isFromBackup?: boolean
}

/** Preferred host of a guest. */
export interface Preference {
  readonly toHostId?: string | undefined
  /** True if another host is acceptable. */
  readonly orElsewhere?: boolean
}

interface PlanRequest<T> extends Pick<TargetRequest, 'alsoMoving' | 'isFromBackup'> {
  readonly preferred?: (guest: T) => Preference
}

/** Chooses hosts for guests. Resources are reserved in the store, so that no other gateway assigns them again. */
export class Placement {
  constructor(private readonly options: PlacementOptions) {}

  /**
   * Chooses a host for a new guest. The caller stores the reservation in the transaction that read `rooms`.
   * @param rooms all reservations; a host on which the operation already has a reservation is preferred
   * @param isExcluded true for hosts that have refused the guest
   * @returns undefined if all suitable hosts are excluded
   * @throws {BerthError} as `planPlacement`
   */
  placeNew(
    { operationId, spec, hostId: wanted, backup, settings, isFromArchive = false, isPortRetry = false }: NewGuest,
    rooms: ReservedRooms,
    isExcluded: (hostId: string) => boolean = () => false,
  ): ChosenHost | undefined {
    const { candidates, counted, changes } = this.#read(rooms, operationId)
    const neighbors = this.#neighborsOf({ rules: spec.placement ?? noPlacement }, counted)
    const [isFromBackup, hasSettings] = [backup !== undefined, settings !== undefined]
    const facts = { ratios: this.options.ratios, hostId: wanted, neighbors, isFromBackup, hasSettings, isFromArchive }
    const hostIds = planPlacement(spec, candidates, facts).filter((id) => !isExcluded(id))
    const reserved = rooms.get(operationId)?.hostId
    const ordered = hostIds.toSorted((a, b) => Number(b === reserved) - Number(a === reserved))
    const others = new Map([...rooms].filter(([id]) => id !== operationId))
    const wantedPorts = { portMappings: spec.portMappings, rooms: others, isRetry: isPortRetry }
    const chosen = this.options.ports.choose(ordered, wantedPorts)
    if (!chosen) return undefined
    const { hostId, ports, ...hostPorts } = chosen
    return { hostId, room: { ...reserve(hostId, spec), ...(ports && { ports }) }, changes, ...hostPorts }
  }

  /**
   * Reserves resources for several guests before the first guest is created. If no host has room for one of the guests,
   * reserves nothing.
   * @param attempt called for each guest with its index; must call `place`, and may replace the error of `place`
   * @throws {BerthError} as `planPlacement`, `store_unavailable`
   */
  async hold(requests: readonly NewGuest[], attempt: (at: number, place: () => void) => void): Promise<void> {
    await this.options.rooms.change((stored) => {
      const rooms = new Map(stored)
      const changes = new Map(this.#read(stored).changes)
      for (const [at, request] of requests.entries())
        attempt(at, () => {
          const { room } = this.placeNew(request, rooms)!
          rooms.set(request.operationId, room)
          changes.set(request.operationId, room)
        })
      return { changes, result: undefined }
    })
  }

  /** Removes reservations of `hold` or `reserveTarget`. If this fails, they stay until they expire. Never rejects. */
  async release(operationIds: readonly string[]): Promise<void> {
    await this.#changeQuietly(() => new Map(operationIds.map((id) => [id, undefined])))
  }

  /** Shortens reservations of guests that hosts report, and removes expired reservations. Never rejects. */
  async clean(): Promise<void> {
    await this.#changeQuietly((rooms) => this.#read(rooms).changes)
  }

  /** True if resources of a host are reserved for guests that it does not report yet. */
  async isExpecting(hostId: string): Promise<boolean> {
    const { counted } = this.#planRooms(await this.options.rooms.list())
    return counted.some((room) => room.hostId === hostId && !isOfMapping(room))
  }

  /** Chooses the host to which a guest can move, and reserves nothing. @throws {BerthError} as `planMoveTargets` */
  async findTarget(guest: MovingGuest, request: TargetRequest = {}): Promise<string> {
    return this.#placeMoved(guest, await this.options.rooms.list(), request).hostId
  }

  /** Chooses the target of a guest's move, and reserves resources there. @throws {BerthError} as `planMoveTargets` */
  async reserveTarget(moveId: string, guest: MovingGuest, request: TargetRequest & Preference = {}): Promise<string> {
    return this.options.rooms.change((rooms) => {
      const { hostId, room, changes } = this.#placePreferred(guest, rooms, { ...request, moveId })
      return { changes: new Map([...changes, [moveId, room]]), result: hostId }
    })
  }

  /**
   * Chooses a target for each of several guests, as if they moved one after another, and reserves nothing. Guests that
   * must stay together may leave their host if all of them can move.
   * @param refuse throws if the guest cannot move at all
   * @param request without `alsoMoving`, all guests that can move count as moving
   * @returns the id of the target, or the reason why no host can take the guest, in the order of the guests
   */
  async planTargets<T extends MovingGuest>(
    guests: readonly T[],
    refuse: (guest: T) => void,
    { preferred, ...request }: PlanRequest<T> = {},
  ): Promise<(string | BerthError)[]> {
    const rooms = new Map(await this.options.rooms.list())
    const refusals = new Map(guests.map((guest) => [guest, findRefusal(() => refuse(guest))]))
    const alsoMoving = guests.filter((guest) => !refusals.get(guest)).map(({ guest }) => guest.uuid)
    return guests.map((guest) => {
      const refusal = refusals.get(guest)
      if (refusal) return refusal
      try {
        const { hostId, room } = this.#placePreferred(guest, rooms, { alsoMoving, ...request, ...preferred?.(guest) })
        rooms.set(`planned ${guest.guest.uuid}`, room)
        return hostId
      } catch (error) {
        return toBerthError(error, noTarget)
      }
    })
  }

  /** Like `#placeMoved`. With `orElsewhere`, chooses another host if the requested host cannot take the guest. */
  #placePreferred(
    guest: MovingGuest,
    rooms: ReservedRooms,
    request: TargetRequest & Preference & { readonly moveId?: string },
  ): ChosenHost {
    const { orElsewhere = false, toHostId, ...others } = request
    try {
      return this.#placeMoved(guest, rooms, { ...others, toHostId })
    } catch (error) {
      if (!orElsewhere || toHostId === undefined) throw error
      return this.#placeMoved(guest, rooms, others)
    }
  }

  /** Suggests moves of guests, and reserves nothing. */
  async planBalance(choice: BalanceChoice): Promise<Suggestion[]> {
    const { view, ratios, rooms } = this.options
    const { candidates, counted } = this.#read(await rooms.list())
    return planBalance({ candidates, guests: [...view.guests()], reserved: counted.map(placedRoom), ratios, ...choice })
  }

  #placeMoved(
    { hostId: from, guest }: MovingGuest,
    rooms: ReservedRooms,
    {
      moveId,
      toHostId,
      refusedBy = [],
      alsoMoving,
      isFromBackup = false,
    }: TargetRequest & { readonly moveId?: string } = {},
  ): ChosenHost {
    const { candidates, counted, changes } = this.#read(rooms, moveId)
    const others = withoutCopy(candidates, guest).filter(({ host }) => host.id !== from)
    const { uuid, placement: rules = noPlacement } = guest
    const place = { uuid, rules, fromHostId: from, alsoMoving: alsoMoving && new Set(alsoMoving) }
    const neighbors = this.#neighborsOf(place, counted)
    const facts = { ratios: this.options.ratios, hostId: toHostId, neighbors, isFromBackup }
    const hostIds = planMoveTargets(guest, others, facts)
    const hostId = hostIds.find((id) => !refusedBy.includes(id)) ?? hostIds[0]!
    return { hostId, room: { ...reserve(hostId, guest), uuid, ports: reservedPorts(guest) }, changes }
  }

  /** @param ownId id of the operation to plan; its earlier reservation does not count, because it will be replaced */
  #read(rooms: ReservedRooms, ownId?: string): RoomPlan & { candidates: Candidate[] } {
    const { counted, changes } = this.#planRooms(new Map([...rooms].filter(([id]) => id !== ownId)))
    const reserved = sumRooms(counted)
    const candidates = [...this.options.view.states()].map((host) => ({
      host: host.view,
      findTemplate: (id: string) => host.templates.get(id)?.template,
      allocated: addAllocation(host.allocated, reserved.get(host.record.id)),
    }))
    return { candidates, counted, changes }
  }

  #planRooms(rooms: ReservedRooms): RoomPlan {
    const { view } = this.options
    const isShown = (hostId: string, uuid: string): boolean => view.findState(hostId)?.guests.has(uuid) ?? false
    return planRooms(rooms, { nowMs: steadyClock.earliest(), latestMs: steadyClock.latest(), isShown })
  }

  /** Finds the other guests to which the rules of a guest refer, and reservations for such guests. */
  #neighborsOf(guest: GuestToPlace, rooms: readonly ReservedRoom[]): Neighbors {
    const { spread, together } = guest.rules
    if (spread === '' && together === '') return noNeighbors
    return planNeighbors([...placedGuests(this.options.view), ...rooms.map(placedRoom)], guest)
  }

  async #changeQuietly(plan: (rooms: ReservedRooms) => RoomChanges): Promise<void> {
    const { rooms, log } = this.options
    await rooms
      .change((stored) => ({ changes: plan(stored), result: undefined }))
      .catch((error: unknown) =>
        log.debug({ reason: describeError(error) }, 'could not change reservations of resources; trying again later'),
      )
  }
}

/** Reason that is reported if no other reason is known. */
const noTarget = 'no suitable target host was found'

function findRefusal(refuse: () => void): BerthError | undefined {
  try {
    refuse()
    return undefined
  } catch (error) {
    return toBerthError(error, noTarget)
  }
}

/** Guests whose rules concern other guests. */
function placedGuests(view: FleetState): PlacedGuest[] {
  const placed = []
  for (const { hostId, guest } of view.guests())
    if (guest.placement && !isDeleted(guest))
      placed.push({ hostId, uuid: guest.uuid, rules: guest.placement, limits: guest.limits })
  return placed
}

function placedRoom({ hostId, uuid, limits, rules = noPlacement }: ReservedRoom): PlacedGuest {
  return { hostId, uuid, limits, rules }
}

interface RoomRequest {
  readonly deletion?: Guest['deletion']
  readonly limits?: Allocation | undefined
  readonly placement?: PlacementRules | undefined
}

function reserve(hostId: string, { limits, deletion, placement = noPlacement }: RoomRequest): ReservedRoom {
  const { vcpuMilli = 0, ramMb = 0, diskGb = 0 } = limits ?? {}
  const { spread, together } = placement
  const rules = !isDeleted({ deletion }) && (spread !== '' || together !== '') && { rules: { spread, together } }
  return { hostId, limits: { vcpuMilli, ramMb, diskGb }, ...rules, untilMs: steadyClock.now() + roomLifetimeMs }
}
