import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ExpectGuestResponse } from '../../../proto/gen/berth/agent/v1/move.js'
import type { SubmitOperationResponse } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { Ratios } from '../../../shared/allocation.js'
import { KeyedSingleFlight, SingleFlight } from '../../../shared/async/single-flight.js'
import { BerthError, conflict, describeError } from '../../../shared/errors.js'
import { UnansweredError } from '../../../shared/grpc-errors.js'
import type { Authority } from '../../pki/authority.js'
import type { AgentClient, GuestMovePlan, GuestMoveRequest, GuestView, PlannedMove } from '../contract.js'
import type { GuestOwners } from '../placement/guest-owners.js'
import type { Placement } from '../placement/placement.js'
import { cannotMove } from '../placement/plan-placement.js'
import { findReported } from '../reported-guests.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import { LostMoves } from './lost-moves.js'
import { Announcer } from './announcer.js'
import type { MoveDecision, MoveStore, StoredMove } from './move-store.js'
import { planAnnounced, planMoveStep, type MoveFacts } from './plan-move.js'

/** Lifetime of a transfer ticket in ms, longer than any transfer. The ticket becomes invalid when the move ends. */
const ticketMs = 24 * 3_600_000
const workEveryMs = 1000
/** For the reconnection after an agent has renewed its key: time limit in ms, and pause between two checks. */
const renewalMs = 10_000
const renewalLookMs = 200

export interface GuestMoverOptions {
  readonly view: FleetState
  readonly watched: WatchedHosts
  readonly placement: Pick<Placement, 'findTarget' | 'planTargets' | 'reserveTarget' | 'release'>
  readonly ratios: Ratios
  readonly owners: GuestOwners
  readonly authority: Authority
  readonly moves: MoveStore
  readonly log: Logger
  readonly reached: (hostId: string, revision: number) => Promise<void>
}

/** Moves guests between hosts, and decides which host owns them. Any gateway continues moves that another one began. */
export class GuestMover {
  readonly #working = new SingleFlight()
  /** Announcements in progress, by uuid of the moved guest or id of a host. A slow host delays no other moves. */
  readonly #announcing = new KeyedSingleFlight<string>()
  #timer: NodeJS.Timeout | undefined
  #unlisten: (() => void) | undefined
  readonly #announcer: Announcer
  readonly #lost = new LostMoves()
  #isDirty = false

  constructor(private readonly options: GuestMoverOptions) {
    this.#announcer = new Announcer(options)
  }

  start(): void {
    this.#timer = setInterval(() => this.#wake(), workEveryMs)
    this.#unlisten = this.options.view.changes.listen((change) => {
      const isOfMove = change.kind === 'task' && change.after?.operation.action === 'migrate'
      if (isOfMove || (change.kind === 'guest' && change.after?.guest.ownership?.role === 'handed_over')) this.#wake()
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#unlisten?.()
    await this.#working.settled()
    await Promise.all(this.#announcing.keys.map((uuid) => this.#announcing.settled(uuid)))
  }

  /** Plans a move without changing anything. @throws {BerthError} if the guest cannot move to the host */
  async check({ guest, toHostId }: Pick<GuestMoveRequest, 'guest' | 'toHostId'>): Promise<GuestMovePlan> {
    await this.#refuseImpossible(guest, toHostId)
    return this.#tryTarget(guest, await this.options.placement.findTarget(guest, toHostId))
  }

  /** Plans moves of several guests, as if they moved one after another, without changing anything. */
  async planAll(guests: readonly GuestView[]): Promise<PlannedMove[]> {
    const targets = await this.options.placement.planTargets(guests, refuseUnmovable)
    return guests.map((guest, at) => {
      const target = targets[at]!
      if (target instanceof BerthError) return { guest, toHostId: '', message: target.message }
      return { guest, toHostId: target, message: '' }
    })
  }

  /** @throws {BerthError} if no host could get the guest at present, or the guest is already on the target */
  async #refuseImpossible(guest: GuestView, toHostId: string | undefined): Promise<void> {
    refuseUnmovable(guest)
    const { watched, view, moves } = this.options
    const source = view.findHost(guest.hostId)
    watched.agent(guest.hostId)
    if (!source?.description?.features.includes('move')) throw cannotMove(source?.name)
    if (await moves.find(guest.guest.uuid)) throw conflict('guest_moving', 'the container is moving already')
    if (toHostId === guest.hostId) throw conflict('invalid_state', 'the container is already on the target host')
    await (toHostId === undefined ? watched.expectedConnections() : watched.expectedConnection(toHostId))
  }

  /** Lets the target check whether it can take the guest. */
  async #tryTarget(guest: GuestView, toHostId: string): Promise<GuestMovePlan> {
    const network = await this.#agent(toHostId).moves.expectGuest(this.#expectation(guest, '', 0))
    return { toHostId, network }
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
      // An order that was sent but not answered may have begun the move. The source's operation then shows the outcome.
      if (error instanceof UnansweredError && error.left) throw error
      return this.#cancel(move, error)
    })
  }

  /** Reserves resources on the target and stores the move, which keeps them reserved. */
  async #store({ operationId: id, guest, toHostId: wanted }: GuestMoveRequest) {
    const { placement, moves } = this.options
    await this.#refuseImpossible(guest, wanted)
    const toHostId = await placement.reserveTarget(id, guest, wanted)
    try {
      const plan = await this.#tryTarget(guest, toHostId)
      const move = { id, uuid: guest.guest.uuid, fromHostId: guest.hostId, toHostId, beganAtMs: Date.now() }
      await moves.begin(move)
      return { plan, move }
    } catch (error) {
      await placement.release([id])
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
    return { moveId, generation, fromHostId, guest, overcommit: this.options.ratios }
  }

  async #order(request: GuestMoveRequest, move: StoredMove, plan: GuestMovePlan) {
    const { view, moves } = this.options
    const { id, uuid, fromHostId, toHostId } = move
    const target = view.findState(toHostId)
    if (!target) throw conflict('invalid_state', 'the target host was removed')
    const { address: toAddress, serials } = target.record
    const generation = await moves.readGeneration(uuid)
    const { requestedBy, bandwidthMbps } = request
    const value = { uuid, generation, toHostId, toAddress, toSerials: [...serials], bandwidthMbps }
    const response = await this.#withTicket(move, (ticket) =>
      this.#agent(fromHostId).operations.submitOperation({
        operationId: id,
        requestedBy,
        order: { $case: 'migrate', value: { ...value, ticket } },
      }),
    )
    await this.options.reached(fromHostId, response.revision)
    return { ...plan, response }
  }

  /** Calls `submit` with a ticket for the transfer. Repeats this with a new ticket if the agent has renewed its key. */
  async #withTicket<T>(move: StoredMove, submit: (ticket: string) => Promise<T>): Promise<T> {
    for (const startMs = performance.now(); ; await delay(renewalLookMs)) {
      try {
        return await submit(await this.#issueTicket(move))
      } catch (error) {
        const isEarlierKey = error instanceof BerthError && error.code === 'key_renewed'
        if (!isEarlierKey) throw error
        if (performance.now() - startMs < renewalMs) continue
        throw new BerthError('unavailable', 'host_offline', 'the key of the host is being renewed: try again')
      }
    }
  }

  /** Issues a certificate that allows exactly this transfer, for the key of the source host's agent. */
  async #issueTicket({ id: moveId, uuid: guestUuid, fromHostId, toHostId }: StoredMove): Promise<string> {
    const { authority, watched } = this.options
    const peer = watched.peerOf(fromHostId)
    if (!peer) throw new BerthError('unavailable', 'host_offline', `host ${fromHostId} is not connected`)
    const transfer = { moveId, guestUuid, fromHostId, toHostId }
    return (await authority.certify(peer.publicKey, { role: 'transfer', transfer }, ticketMs)).certificatePem
  }

  #agent(hostId: string): AgentClient {
    return this.options.watched.agent(hostId)
  }

  #wake(): void {
    this.#isDirty = true
    void this.#working.run(() => this.#workAll())
  }

  async #workAll(): Promise<void> {
    while (this.#isDirty) {
      this.#isDirty = false
      try {
        const hosts = [...this.options.view.states()]
        const outdated = hosts.map(({ record, outdated }) => ({ record, copies: [...outdated] }))
        const moves = await this.options.moves.list()
        await Promise.all(moves.map((move) => this.#work(move)))
        for (const lost of this.#lost.find(hosts, moves, performance.now())) await this.options.moves.recover(lost)
        for (const { record, copies } of outdated)
          if (copies.length > 0)
            void this.#announcing.run(record.id, () => this.#announcer.fence(record.id, copies, moves))
      } catch (error) {
        this.options.log.debug({ reason: describeError(error) }, 'continuing the moves of containers failed')
      }
    }
  }

  async #work(move: StoredMove): Promise<void> {
    const step = planMoveStep(move, this.#factsOf(move))
    if (step === 'wait') return
    if (step === 'announce') return void this.#announcing.run(move.uuid, () => this.#announce(move))
    await this.#decide(move, step)
  }

  async #decide(move: StoredMove, decision: MoveDecision): Promise<void> {
    const { moves, log } = this.options
    if (!(await moves.decide(move, decision))) return
    log.info(
      { guest: move.uuid, move: move.id, from: move.fromHostId, to: move.toHostId },
      `a move was decided: ${decision}`,
    )
    this.#wake()
  }

  #factsOf({ id, uuid, fromHostId, toHostId }: StoredMove): MoveFacts {
    const { view, watched } = this.options
    const host = view.findState(fromHostId)
    const guest = host && findReported(host, uuid)
    return {
      source: guest && (guest.ownership ?? { role: 'owner', moveId: '' }),
      operation: view.findOperation(id)?.operation.status,
      isSourceOnline: host?.online ?? false,
      isSourceRemoved: watched.isRemoved(fromHostId),
      isTargetOnline: view.findState(toHostId)?.online ?? false,
      nowMs: Date.now(),
    }
  }

  /** Announces the owner to both hosts: first to the owner, because afterwards the other host deletes its copy. */
  async #announce(move: StoredMove): Promise<void> {
    const { moves, log } = this.options
    try {
      if (!(await moves.confirmDecided(move))) return
      const step = planAnnounced(move, await this.#announcer.appointOwner(move), this.#factsOf(move))
      if (step === 'wait') return
      if (step === 'return') return await this.#decide(move, 'return')
      if (step === 'tell') await this.#announcer.dismissOther(move)
      await moves.forget(move)
    } catch (error) {
      log.debug({ guest: move.uuid, reason: describeError(error) }, 'announcing the owner of a container failed')
    }
  }
}

const noResponse = { revision: 0, guest: undefined, sshPassword: '' }

/** The answer for a move that has ended: the guest's present host, addresses and ports. */
function movedPlan({ hostId, guest }: GuestView): GuestMovePlan {
  const { portMappings, publicIpv4s, ipv6Addresses, ipv4 } = guest
  return { toHostId: hostId, network: { portMappings, publicIpv4s, ipv6Addresses, ipv4 } }
}

/** @throws {BerthError} `unsupported`, `invalid_state` */
function refuseUnmovable({ guest }: GuestView): void {
  if (guest.virtualization !== 'lxc')
    throw new BerthError('invalid', 'unsupported', 'virtual machines cannot be moved between hosts yet')
  if (guest.boot && guest.boot.mode !== 'disk')
    throw conflict('invalid_state', 'the container is in rescue mode: boot its disk first')
  if (!['running', 'stopped'].includes(guest.status))
    throw conflict('invalid_state', `the container is ${guest.status}: wait until it runs or is stopped`)
}
