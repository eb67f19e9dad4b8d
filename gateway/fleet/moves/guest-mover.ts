import type { ExpectGuestResponse } from '../../../proto/gen/berth/agent/v1/move.js'
import type { SubmitOperationResponse } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { AgentFeature } from '../../../shared/agent-features.js'
import type { Ratios } from '../../../shared/allocation.js'
import { SingleFlight } from '../../../shared/async/single-flight.js'
import { BerthError, conflict, toBerthError } from '../../../shared/errors.js'
import { downtimeMs, offlineRequired } from '../../../shared/move-rules.js'
import { UnansweredError } from '../../../shared/grpc-errors.js'
import type { AgentClient } from '../agent-contract.js'
import type { GuestView } from '../contract.js'
import { movesLive } from '../move-contract.js'
import type {
  GuestMovePlan,
  GuestMoveRequest,
  GuestMoves,
  PlannedMove,
  Suggestion,
  SuggestionChoice,
} from '../move-contract.js'
import type { Placement } from '../placement/placement.js'
import { cannotMove } from '../placement/plan-placement.js'
import { sharedPoolsOf } from '../shared-pools.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import { planKept } from './plan-move.js'
import type { MoveStore, StoredMove } from './move-store.js'
import { TransferTickets, type TransferTicketsOptions } from './transfer-tickets.js'

type MoveChoice = Pick<GuestMoveRequest, 'guest' | 'toHostId' | 'offline'>

export interface GuestMoverOptions extends TransferTicketsOptions {
  readonly view: FleetState
  readonly watched: WatchedHosts
  readonly placement: Pick<Placement, 'findTarget' | 'planBalance' | 'planTargets' | 'reserveTarget' | 'release'>
  readonly ratios: Ratios
  readonly moves: MoveStore
  readonly reached: (hostId: string, revision: number) => Promise<void>
}

/** Plans moves of guests to other hosts, and begins them. `MoveDecider` continues them. */
export class GuestMover implements GuestMoves {
  readonly #tickets: TransferTickets
  readonly #suggesting = new SingleFlight<Suggestion[]>()

  constructor(private readonly options: GuestMoverOptions) {
    this.#tickets = new TransferTickets(options)
  }

  /** Plans a move without changing anything. @throws {BerthError} if the guest cannot move to the host */
  async check(request: MoveChoice): Promise<GuestMovePlan> {
    const { guest, toHostId } = request
    await this.#refuseImpossible(request)
    const moving = { guest, liveFacts: await this.#describeLive(request) }
    return this.#chooseTarget(moving, (refusedBy) => this.options.placement.findTarget(guest, { toHostId, refusedBy }))
  }

  /** Plans moves of several guests, as if they moved one after another, without changing anything. */
  async planAll(guests: readonly GuestView[]): Promise<PlannedMove[]> {
    const refusals = await this.#findRefusals(guests)
    const targets = await this.options.placement.planTargets(guests, (guest) => {
      const refusal = refusals.get(guest.guest.uuid)
      if (refusal) throw refusal
    })
    return guests.map((guest, at) => {
      const target = targets[at]!
      if (target instanceof BerthError) return { guest, toHostId: '', message: target.message }
      return { guest, toHostId: target, message: '' }
    })
  }

  /**
   * Finds the guests that cannot move at present, or cannot move while they run.
   * @returns the reason for each of these guests, by uuid
   */
  async #findRefusals(guests: readonly GuestView[]): Promise<ReadonlyMap<string, Error>> {
    const refusals = guests.map(async (guest): Promise<[string, Error][]> => {
      try {
        this.#refuseUnmovable(guest, false)
        await this.#describeLive({ guest, offline: false })
        return []
      } catch (error) {
        return [
          [
            guest.guest.uuid,
            toBerthError(error, 'could not plan the move of the container: see the log of the gateway'),
          ],
        ]
      }
    })
    return new Map((await Promise.all(refusals)).flat())
  }

  /** Suggests moves that fulfill placement rules or even out the load, without changing anything. */
  suggest(choice?: SuggestionChoice): Promise<Suggestion[]> {
    const { placement } = this.options
    const refuse = (guest: GuestView): void => {
      this.#refuseUnmovable(guest, false)
      choice?.refuse(guest)
    }
    const plan = (): Promise<Suggestion[]> => placement.planBalance({ ...choice, refuse })
    return choice ? plan() : this.#suggesting.run(plan)
  }

  /** @throws {BerthError} if no host can take the guest at present, or the guest is already on the target */
  async #refuseImpossible({ guest, toHostId, offline }: MoveChoice): Promise<void> {
    this.#refuseUnmovable(guest, offline)
    const { watched, moves } = this.options
    if (await moves.find(guest.guest.uuid))
      throw conflict('guest_moving', 'the container is already moving: wait for its task, or cancel it')
    if (toHostId === guest.hostId) throw conflict('invalid_state', 'the container is already on the target host')
    await (toHostId === undefined ? watched.expectedConnections() : watched.expectedConnection(toHostId))
  }

  /** @throws {BerthError} if the guest or its present host is not ready for a move */
  #refuseUnmovable(guest: GuestView, offline: boolean): void {
    refuseUnmovable(guest)
    const { watched, view } = this.options
    watched.agent(guest.hostId)
    const source = view.findHost(guest.hostId)
    const has = (feature: AgentFeature): boolean => source?.description?.features.includes(feature) ?? false
    if (movesLive(guest, offline) && !has('move-live'))
      throw offlineRequired(['the agent of the host of the container is too old: upgrade it first'])
    if (!has(featureOf(guest.guest, offline))) throw cannotMove(source?.name)
  }

  /**
   * Returns the facts about a running virtual machine that its target must check. Empty for other guests.
   * @throws {BerthError} `offline_required` if the machine cannot move while it runs
   */
  async #describeLive({ guest, offline }: Pick<MoveChoice, 'guest' | 'offline'>): Promise<string> {
    if (!movesLive(guest, offline)) return ''
    return (await this.#agent(guest.hostId).moves.describeLive({ uuid: guest.guest.uuid })).facts
  }

  #canMove(uuid: string, offline: boolean): boolean {
    const guest = this.options.view.findGuest(uuid)
    try {
      if (guest) this.#refuseUnmovable(guest, offline)
      return guest !== undefined
    } catch {
      return false
    }
  }

  /**
   * Lets the chosen target check whether it can take the guest. If the target refuses, another host is chosen.
   * @param choose returns a host, if possible one that has not refused the guest
   * @throws {BerthError} the refusal of the first host if no other host is left
   */
  async #chooseTarget(
    moving: MovingGuest,
    choose: (refusedBy: readonly string[]) => Promise<string>,
    refusals: ReadonlyMap<string, unknown> = new Map(),
  ): Promise<GuestMovePlan> {
    const toHostId = await choose([...refusals.keys()])
    if (refusals.has(toHostId)) throw refusals.values().next().value
    try {
      return { toHostId, network: await this.#ask(toHostId, moving) }
    } catch (error) {
      return this.#chooseTarget(moving, choose, new Map([...refusals, [toHostId, asRefusal(error)]]))
    }
  }

  /** Asks the target whether it can take the guest. Reserves nothing. @throws {BerthError} the target's refusal */
  #ask(toHostId: string, { guest, liveFacts }: MovingGuest): Promise<ExpectGuestResponse> {
    const target = this.options.view.findHost(toHostId)
    if (liveFacts !== '' && !target?.description?.features.includes('move-live'))
      throw offlineRequired(['the agent of the target host is too old: upgrade it first'])
    return this.#agent(toHostId).moves.expectGuest({ ...this.#expectation(guest, '', 0), liveFacts })
  }

  /** Begins a move. A repeated call with the same id returns the same operation. */
  async begin(request: GuestMoveRequest): Promise<GuestMovePlan & { readonly response: SubmitOperationResponse }> {
    const { moves } = this.options
    const { operationId: id, guest } = request
    const known = await moves.find(guest.guest.uuid)
    if (known?.id === id && !known.decided) return this.#order(request, known, await this.#planOf(known, guest))
    const ordered = this.options.view.findOperation(id)
    if (ordered) return { ...movedPlan(guest), response: { ...noResponse, operation: ordered.operation } }
    const { plan, move } = await this.#store(request)
    const network = await this.#expect(move, guest).catch((error: unknown) => this.#cancel(move, error))
    return this.#order(request, move, { ...plan, network }).catch((error: unknown) => {
      // If the request was sent but not answered, the move has possibly begun. The source's operation shows this.
      if (error instanceof UnansweredError && error.left) throw error
      return this.#cancel(move, error)
    })
  }

  async isStored({ operationId, uuid }: { readonly operationId: string; readonly uuid: string }): Promise<boolean> {
    return (await this.options.moves.find(uuid))?.id === operationId
  }

  /** Reserves resources on the target and stores the move. The stored move keeps the resources reserved. */
  async #store(request: GuestMoveRequest) {
    const { operationId: id, guest, toHostId, refusedBy: earlier = [], offline } = request
    const { placement, moves } = this.options
    await this.#refuseImpossible(request)
    // `alsoMoving` must omit guests that cannot move, so that guests with the same `together` name stay with these.
    const alsoMoving = request.alsoMoving?.filter((uuid) => this.#canMove(uuid, offline))
    const moving = { guest, liveFacts: await this.#describeLive(request) }
    try {
      const plan = await this.#chooseTarget(moving, (now) =>
        placement.reserveTarget(id, guest, { toHostId, refusedBy: [...earlier, ...now], alsoMoving }),
      )
      const { uuid } = guest.guest
      const isRunning = guest.guest.status === 'running'
      const move = { id, uuid, fromHostId: guest.hostId, toHostId: plan.toHostId, beganAtMs: Date.now(), isRunning }
      await moves.begin(move, guest.guest.name)
      return { plan, move }
    } catch (error) {
      // If another gateway has begun the same move meanwhile, the reservation belongs to that gateway.
      if ((await moves.find(guest.guest.uuid))?.id !== id) await placement.release([id])
      throw error
    }
  }

  /** Cancels a move that the source has not begun. @throws the error, always */
  async #cancel(move: StoredMove, error: unknown): Promise<never> {
    await this.options.moves.decide(move, 'cancel')
    throw error
  }

  async #planOf(move: StoredMove, guest: GuestView): Promise<GuestMovePlan> {
    return { toHostId: move.toHostId, network: await this.#expect(move, guest) }
  }

  async #expect(move: StoredMove, guest: GuestView): Promise<ExpectGuestResponse> {
    const generation = await this.options.moves.readGeneration(move.uuid)
    return this.#agent(move.toHostId).moves.expectGuest(this.#expectation(guest, move.id, generation))
  }

  #expectation({ guest, hostId: fromHostId }: GuestView, moveId: string, generation: number) {
    const sharedPools = sharedPoolsOf(this.options.view, fromHostId, guest)
    return { moveId, generation, fromHostId, guest, overcommit: this.options.ratios, liveFacts: '', sharedPools }
  }

  async #order(request: GuestMoveRequest, move: StoredMove, plan: GuestMovePlan) {
    const { view, moves } = this.options
    const { id, uuid, fromHostId, toHostId } = move
    const target = view.findState(toHostId)
    if (!target) throw conflict('invalid_state', 'the target host was removed')
    const { address: toAddress, serials } = target.record
    const generation = await moves.readGeneration(uuid)
    const { requestedBy, bandwidthMbps, offline, maxDowntimeMs = downtimeMs.usual } = request
    const keptIpv4s = planKept(request.guest.guest.publicIpv4s, plan.network.publicIpv4s)
    const how = { bandwidthMbps, offline, live: movesLive(request.guest, offline), maxDowntimeMs, keptIpv4s }
    const value = { uuid, generation, toHostId, toAddress, toSerials: [...serials], ...how }
    const response = await this.#tickets.submit(move, (ticket) =>
      this.#agent(fromHostId).operations.submitOperation({
        operationId: id,
        requestedBy,
        order: { $case: 'migrate', value: { ...value, ticket } },
      }),
    )
    await this.options.reached(fromHostId, response.revision)
    return { ...plan, response }
  }

  #agent(hostId: string): AgentClient {
    return this.options.watched.agent(hostId)
  }
}

const noResponse = { revision: 0, guest: undefined, sshPassword: '' }

/** A target that does not answer counts as one that refuses, because nothing has begun there. */
function asRefusal(error: unknown): unknown {
  return error instanceof UnansweredError ? new BerthError(error.kind, error.code, error.message) : error
}

/** The answer for a move that has ended: the guest's present host, addresses and ports. */
function movedPlan({ hostId, guest }: GuestView): GuestMovePlan {
  const { portMappings, publicIpv4s, ipv6Addresses, ipv4 } = guest
  return { toHostId: hostId, network: { portMappings, publicIpv4s, ipv6Addresses, ipv4 } }
}

/** Feature that the source's agent needs. Agents without `move-offline` ignore `offline` and move only containers. */
function featureOf({ virtualization }: Guest, offline: boolean): AgentFeature {
  return virtualization === 'kvm' || offline ? 'move-offline' : 'move'
}

/** A guest, and its facts from `#describeLive`. */
interface MovingGuest {
  readonly guest: GuestView
  readonly liveFacts: string
}

/** @throws {BerthError} `invalid_state` */
function refuseUnmovable({ guest }: GuestView): void {
  if (guest.boot && guest.boot.mode !== 'disk')
    throw conflict('invalid_state', 'the container does not boot from its disk: choose the disk as boot source first')
  if (!['running', 'stopped'].includes(guest.status))
    throw conflict('invalid_state', `the container is ${guest.status}: wait until it runs or is stopped`)
}
