import type { Logger } from 'pino'
import type { GuestLimits } from '../../../proto/gen/berth/agent/v1/guest.js'
import { addAllocation, type Ratios } from '../../../shared/allocation.js'
import { BerthError } from '../../../shared/errors.js'
import type { Fleet, GuestCreation, GuestCreationRequest, GuestView, HeldRoom } from '../contract.js'
import type { GuestRegistry } from './guest-registry.js'
import type { HostState } from '../host-state.js'
import type { Reservation } from './plan-claims.js'
import { planMoveTarget, planPlacement, type Candidate } from './plan-placement.js'
import type { FleetState } from '../view.js'

export interface CreationOptions {
  readonly view: FleetState
  readonly registry: GuestRegistry
  readonly ratios: Ratios
  readonly log: Logger
  readonly fleet: Pick<Fleet, 'agent' | 'reached'>
  /** Resources of moving guests that the view does not show on their new hosts yet. */
  readonly moving: () => readonly PromisedRoom[]
}

export interface PromisedRoom {
  readonly hostId: string
  readonly limits: GuestLimits | undefined
}

/** Resources of a host that are reserved for a guest that is not created yet. */
interface HostReservation {
  /** Ids of possible hosts. Resources are reserved on the first. If it has no suitable address, the next is tried. */
  readonly hostIds: readonly string[]
  readonly promised: PromisedRoom
}

/** Creates guests: chooses a host, reserves the id and the name, and calls the agent. */
export class GuestCreator {
  /** Resources of guests that the view does not show yet. They count as used, which spreads creations over hosts. */
  readonly #promised = new Set<PromisedRoom>()
  /** Reservations that no creation has used yet, by operation id. */
  readonly #held = new Map<string, HostReservation>()

  constructor(private readonly options: CreationOptions) {}

  async create(request: GuestCreationRequest): Promise<GuestCreation> {
    const earlier = await this.options.registry.findByOperation(request.operationId)
    if (earlier) return this.#submit(request, earlier, true)
    const refusals: BerthError[] = []
    for (const hostId of this.#takeHeld(request.operationId) ?? this.#place(request))
      try {
        return await this.#createOn(hostId, request)
      } catch (error) {
        if (!lacksAddresses(request, error)) throw error
        refusals.push(error)
      }
    throw mostTelling(refusals)
  }

  /** Reserves resources of hosts for several guests, before the first guest is created. They count as used. */
  holdRoom(): HeldRoom {
    const own: string[] = []
    return {
      hold: (request) => {
        const hostIds = this.#place(request)
        const promised = { hostId: hostIds[0]!, limits: request.spec.limits }
        this.#held.set(request.operationId, { hostIds, promised })
        this.#promised.add(promised)
        own.push(request.operationId)
      },
      release: () => own.forEach((operationId) => this.#takeHeld(operationId)),
    }
  }

  /** Returns the hosts that `holdRoom` has reserved for an operation, and ends this reservation. */
  #takeHeld(operationId: string): readonly string[] | undefined {
    const held = this.#held.get(operationId)
    if (!held) return undefined
    this.#held.delete(operationId)
    this.#promised.delete(held.promised)
    return held.hostIds
  }

  async #createOn(hostId: string, request: GuestCreationRequest): Promise<GuestCreation> {
    const { registry, view } = this.options
    const promised = { hostId, limits: request.spec.limits }
    this.#promised.add(promised)
    try {
      this.options.fleet.agent(hostId) // throws before anything is reserved
      const { name, operationId } = request
      const { reservation, repeated } = await registry.reserve(
        { name, hostId, operationId },
        (taken) => view.findGuest(taken) !== undefined,
      )
      return await this.#submit(request, reservation, repeated)
    } finally {
      this.#promised.delete(promised)
    }
  }

  async #submit(request: GuestCreationRequest, reservation: Reservation, repeated: boolean): Promise<GuestCreation> {
    const { hostId, id, uuid, name } = reservation
    const { operationId, spec, requestedBy } = request
    const overcommit = this.options.ratios
    const order = { $case: 'create', value: { id, uuid, name, spec, overcommit } } as const
    try {
      const response = await this.options.fleet
        .agent(hostId)
        .operations.submitOperation({ operationId, requestedBy, order })
      // The resources stay reserved until the view shows the guest.
      await this.options.fleet.reached(hostId, response.revision)
      return { hostId, response }
    } catch (error) {
      // Only a clear refusal by the agent releases the reservation. Otherwise the guest may exist, and a later sweep
      // decides.
      if (!repeated && isRefusal(error)) await this.#release(reservation)
      throw error
    }
  }

  async #release({ hostId, uuid, name }: Reservation): Promise<void> {
    const { registry, log } = this.options
    await registry
      .release(hostId, uuid)
      .catch((error: unknown) =>
        log.warn(
          { uuid, name, error },
          'the reservation of a container could not be released; a later sweep releases it',
        ),
      )
  }

  /** Chooses the host to which a guest moves. @throws {BerthError} as `planMoveTarget` */
  placeMoved({ hostId, guest }: GuestView, toHostId?: string): string {
    const others = [...this.options.view.states()].filter(({ record }) => record.id !== hostId)
    return planMoveTarget(
      guest,
      others.map((host) => this.#candidate(host)),
      this.options.ratios,
      toHostId,
    )
  }

  /** Counts resources of a host as used. @returns a function that stops counting them */
  promise(room: PromisedRoom): () => void {
    this.#promised.add(room)
    return () => void this.#promised.delete(room)
  }

  #place({ spec, hostId }: GuestCreationRequest): string[] {
    const candidates = [...this.options.view.states()].map((host) => this.#candidate(host))
    return planPlacement(spec, candidates, this.options.ratios, hostId)
  }

  #candidate(host: HostState): Candidate {
    const promised = [...this.#promised, ...this.options.moving()].filter(({ hostId }) => hostId === host.record.id)
    return {
      host: host.view,
      findTemplate: (id) => host.templates.get(id)?.template,
      allocated: promised.reduce((sum, { limits }) => addAllocation(sum, limits), host.totals.allocated),
    }
  }
}

/** True if the host has no suitable addresses. Each host has its own pools, so another host may have some. */
function lacksAddresses({ spec }: GuestCreationRequest, error: unknown): error is BerthError {
  const named = { public_ipv4s: spec.publicIpv4s, ipv6_addresses: spec.ipv6Addresses }
  const asksFor = spec.ipv4Count + spec.ipv6Count > 0 || Object.values(named).some(({ length }) => length > 0)
  if (!asksFor || !(error instanceof BerthError)) return false
  return error.code === 'resource_exhausted' || Object.hasOwn(named, error.field ?? '')
}

/** Selects the error to report. "No free address" says more than "the address belongs to no pool". */
function mostTelling(refusals: readonly BerthError[]): BerthError {
  return refusals.find(({ code }) => code === 'resource_exhausted') ?? refusals[0]!
}

function isRefusal(error: unknown): boolean {
  return error instanceof BerthError && ['invalid', 'conflict', 'exhausted', 'not_found'].includes(error.kind)
}
