import type { Logger } from 'pino'
import type { Ratios } from '../../../shared/allocation.js'
import { BerthError } from '../../../shared/errors.js'
import type { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Fleet } from '../contract.js'
import type { GuestCreation, GuestCreationRequest, HeldRoom } from '../creation-contract.js'
import { isPortConflict, portTries } from './fleet-ports.js'
import { withHostPort } from './plan-ports.js'
import { refuseSharedIpv6 } from '../shared-pools.js'
import type { FleetState } from '../view.js'
import type { GuestRegistry } from './guest-registry.js'
import type { ChosenHost, Placement } from './placement.js'
import type { Reservation } from './plan-claims.js'
import type { ReservedRooms } from './plan-rooms.js'

export interface CreationOptions {
  readonly view: FleetState
  readonly registry: GuestRegistry
  readonly placement: Placement
  readonly ratios: Ratios
  readonly log: Logger
  readonly fleet: Pick<Fleet, 'agent' | 'reached'>
}

/** Fields of CreateFromBackupOrder that describe a guest of a failed host, with their values for a new guest. */
const newGuest = { generation: 0, former: undefined, sharedPools: [], standbyId: '' }

const noSettings = { firewall: undefined, backupSchedule: undefined }

interface PortAttempt extends GuestCreationRequest {
  readonly isPortRetry: boolean
}

/** Refusals of hosts, by host id. */
type Refusals = Map<string, BerthError>

/** Creates guests: chooses a host, reserves resources, id and name, and calls the agent. */
export class GuestCreator {
  /** Ids of creations for which `holdRoom` has reserved resources, and which have not begun yet. */
  readonly #held = new Set<string>()

  constructor(private readonly options: CreationOptions) {}

  async create(request: GuestCreationRequest): Promise<GuestCreation> {
    const earlier = await this.options.registry.findByOperation(request.operationId)
    if (earlier) return this.#submit(request, earlier, true)
    const refusals: Refusals = new Map()
    for (let portsRefused = 0; ;) {
      const { reservation, repeated } = await this.#reserve({ ...request, isPortRetry: portsRefused > 0 }, refusals)
      try {
        return await this.#submit(request, reservation, repeated)
      } catch (error) {
        if (repeated) throw error
        if (mayFitElsewhere(request, error)) refusals.set(reservation.hostId, error)
        else if (!hasChosenPorts(request, reservation) || !isPortConflict(error) || ++portsRefused === portTries)
          throw error
      }
    }
  }

  /** Reserves resources for several guests before the first guest is created, see `Placement.hold`. */
  async holdRoom(...hold: Parameters<Placement['hold']>): Promise<HeldRoom> {
    const { placement } = this.options
    await placement.hold(...hold)
    const ids = hold[0].map(({ operationId }) => operationId)
    ids.forEach((id) => this.#held.add(id))
    return {
      release: async () => {
        const unused = ids.filter((id) => this.#held.delete(id))
        if (unused.length > 0) await placement.release(unused)
      },
    }
  }

  async #reserve(request: PortAttempt, refusals: Refusals) {
    const { registry, view } = this.options
    const { name, operationId } = request
    const reserved = await registry.reserve({
      name,
      operationId,
      isShown: (taken) => view.findGuest(taken) !== undefined,
      place: (rooms) => this.#place(request, rooms, refusals),
    })
    this.#held.delete(operationId)
    return reserved
  }

  /**
   * @throws {BerthError} as `planPlacement`, `address_in_use`, or the error of an agent if all suitable hosts refused
   * the guest
   */
  #place(request: PortAttempt, rooms: ReservedRooms, refusals: Refusals): ChosenHost {
    const { placement, fleet, view } = this.options
    const placed = placement.placeNew(request, rooms, (hostId) => refusals.has(hostId))
    if (!placed) throw mostTelling([...refusals.values()])
    fleet.agent(placed.hostId) // throws if the host is offline, before anything is reserved
    refuseSharedIpv6(view, placed.hostId, request.spec.ipv6Addresses)
    return placed
  }

  async #submit(request: GuestCreationRequest, reservation: Reservation, repeated: boolean): Promise<GuestCreation> {
    const { hostId, id, uuid, name } = reservation
    const { operationId, requestedBy, backup, settings = {} } = request
    const spec = withReservedPorts(request.spec, reservation)
    const create = { id, uuid, name, spec, overcommit: this.options.ratios, ...noSettings, ...settings }
    const order = backup
      ? ({ $case: 'createFromBackup', value: { create, ...backup, ...newGuest } } as const)
      : ({ $case: 'create', value: create } as const)
    await this.#prepare(request, reservation, repeated)
    try {
      const response = await this.options.fleet
        .agent(hostId)
        .operations.submitOperation({ operationId, requestedBy, order })
      await this.options.fleet.reached(hostId, response.revision)
      return { hostId, response }
    } catch (error) {
      // Only a clear refusal by the agent frees the reservation. After other errors, the guest possibly exists. A later
      // sweep frees the reservation if no host reports the guest.
      if (!repeated && isRefusal(error)) await this.#release(reservation)
      throw error
    }
  }

  /** Calls `prepare` of the request. If it fails, the reservation of a new guest is freed. */
  async #prepare({ prepare }: GuestCreationRequest, reservation: Reservation, repeated: boolean): Promise<void> {
    try {
      await prepare?.(reservation)
    } catch (error) {
      if (!repeated) await this.#release(reservation)
      throw error
    }
  }

  async #release({ hostId, uuid, name }: Reservation): Promise<void> {
    const { registry, log } = this.options
    await registry
      .release(hostId, [uuid])
      .catch((error: unknown) =>
        log.warn(
          { uuid, name, error },
          'a container was not created, but its reserved name and id could not be released; trying again later',
        ),
      )
  }
}

/**
 * True if the host refused because of too few resources or addresses, so that another host can possibly accept the
 * guest. Each host has its own address pools.
 */
function mayFitElsewhere({ spec }: GuestCreationRequest, error: unknown): error is BerthError {
  if (!(error instanceof BerthError)) return false
  const named = { public_ipv4s: spec.publicIpv4s, ipv6_addresses: spec.ipv6Addresses }
  const isNamed = Object.values(named).some(({ length }) => length > 0)
  return error.code === 'resource_exhausted' || (isNamed && Object.hasOwn(named, error.field ?? ''))
}

/** Selects the refusal that the client gets. "No free address" helps more than "the address belongs to no pool". */
function mostTelling(refusals: readonly BerthError[]): BerthError {
  return refusals.find(({ code }) => code === 'resource_exhausted') ?? refusals[0]!
}

/** True if the gateway has chosen a host port, so that it can choose another one. */
function hasChosenPorts({ spec }: GuestCreationRequest, { hostPorts }: Reservation): boolean {
  return hostPorts !== undefined && spec.portMappings.some(({ hostPort }) => hostPort === 0)
}

function withReservedPorts(spec: GuestSpec, { hostPorts }: Reservation): GuestSpec {
  if (!hostPorts) return spec
  const portMappings = spec.portMappings.map((mapping, at) =>
    mapping.hostPort === 0 ? withHostPort(mapping, hostPorts[at]!) : mapping,
  )
  return { ...spec, portMappings }
}

function isRefusal(error: unknown): boolean {
  return error instanceof BerthError && ['invalid', 'conflict', 'exhausted', 'not_found'].includes(error.kind)
}
