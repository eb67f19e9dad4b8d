import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { BerthError, describeError, toBerthError } from '../../shared/errors.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import { statusOf } from '../fleet/guest-status.js'
import { StoredDocument } from '../store/document.js'
import { Lease } from '../store/lease.js'
import type { Store } from '../store/store.js'
import { isActive, newDrainedGuest, resultOf, type Drain, type DrainedGuest, type DrainsByHost } from './drain.js'
import { planCommand, planReturn, refuseSecondDrain, type DrainCommand } from './plan-command.js'
import {
  failMove,
  forgetOldest,
  planDrain,
  recordTarget,
  type DrainedGuestFacts,
  type DrainFacts,
} from './plan-drain.js'

export interface DrainsOptions {
  readonly store: Store
  readonly log: Logger
  /** Time in ms after which another gateway takes over the work of one that died. Default: 10 s. */
  readonly leaseMs?: number
  /** Interval in ms of checks of the current drains. Default: 1 s. */
  readonly everyMs?: number
  /** Pause in ms between two attempts to move a container. Default: 30 s. */
  readonly retryMs?: number
}

export interface DrainRequest {
  readonly id: string
  readonly hostId: string
  readonly parallel: number
  readonly bandwidthMbps: number
  readonly startedBy: string
}

/**
 * Moves all containers of a host to other hosts, a few at a time, and back. The state is in the store, and only one
 * gateway at a time works on it. Create the object before `store.start()`.
 */
export class Drains {
  readonly #document: StoredDocument<DrainsByHost>
  /** The gateway that holds this lease moves the containers. All others only read the state. */
  readonly lease: Lease
  readonly #retryMs: number
  readonly #working = new SingleFlight()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(private readonly options: DrainsOptions) {
    const { store, log, leaseMs = 10_000, retryMs = 30_000 } = options
    this.#retryMs = retryMs
    this.#document = new StoredDocument<DrainsByHost>({ store, name: 'drains', initial: {}, log })
    this.lease = new Lease(store, 'drain-worker', leaseMs)
  }

  /** Returns the last drain of a host. @throws {BerthError} `store_unavailable` */
  find(hostId: string): Drain | undefined {
    return this.#document.current[hostId]
  }

  /** Last drains of all hosts. Empty until the store has been read. */
  get all(): readonly Drain[] {
    return Object.values(this.#document.value ?? {})
  }

  start(fleet: Fleet): void {
    const work = (): void => void this.#working.run(() => this.#work(fleet))
    this.#timer = setInterval(work, this.options.everyMs ?? 1000)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#working.settled()
    await this.lease.release().catch(() => undefined) // if this fails, the lease expires
  }

  /**
   * Closes a host for new containers, and begins to move its containers to other hosts. A repeated call with the same
   * id changes nothing.
   * @throws {BerthError} `drain_running`, `not_found`, `store_unavailable`
   */
  async begin(fleet: Fleet, request: DrainRequest): Promise<Drain> {
    const known = this.find(request.hostId)
    if (known?.id === request.id) return known
    refuseSecondDrain(known)
    await fleet.hosts.updateHost(request.hostId, { draining: true })
    const guests = [...fleet.view.guestsOf(request.hostId)].map(({ guest }) => newDrainedGuest(guest))
    return this.#update(request.hostId, (old) => {
      refuseSecondDrain(old)
      return { ...request, direction: 'away', state: 'running', guests, startedAtMs: Date.now(), endedAtMs: 0 }
    })
  }

  /** @throws {BerthError} `invalid_state`, `not_found`, `store_unavailable` */
  async command(fleet: Fleet, hostId: string, command: DrainCommand): Promise<Drain> {
    const drain = await this.#update(hostId, (old) => planCommand(old, command))
    if (command === 'resume' && drain.direction === 'away') await fleet.hosts.updateHost(hostId, { draining: true })
    return drain
  }

  /**
   * Opens a host for new containers again, and cancels its drain.
   * @param options.bringBack true: the containers that the drain has moved away return to the host
   * @returns undefined if the host was never drained
   * @throws {BerthError} `invalid_state`, `drain_running`, `not_found`, `store_unavailable`
   */
  async undrain(fleet: Fleet, hostId: string, { bringBack }: { bringBack: boolean }): Promise<Drain | undefined> {
    if (bringBack) planReturn(this.find(hostId))
    await fleet.hosts.updateHost(hostId, { draining: false })
    if (bringBack) return this.#update(hostId, planReturn)
    const drain = this.find(hostId)
    const isCancelable = drain?.direction === 'away' && ['running', 'paused'].includes(drain.state)
    return isCancelable ? this.#update(hostId, (old) => planCommand(old, 'cancel')) : drain
  }

  async #work(fleet: Fleet): Promise<void> {
    try {
      if (this.#closed || !fleet.isComplete || !this.all.some(isUnfinished)) return
      // Without this wait, hosts that are about to connect would count as offline.
      await fleet.expectedConnections()
      if (!(await this.lease.take())) return
      await this.#forgetRemovedHosts(fleet)
      await Promise.all(this.all.filter(isUnfinished).map((drain) => this.#advance(fleet, drain)))
    } catch (error) {
      this.options.log.debug({ reason: describeError(error) }, 'continuing the drains failed')
    }
  }

  async #forgetRemovedHosts(fleet: Fleet): Promise<void> {
    const isRemoved = ({ hostId }: Drain): boolean => fleet.view.findHost(hostId) === undefined
    if (!this.all.some(isRemoved)) return
    const keep = (drains: DrainsByHost): DrainsByHost =>
      Object.fromEntries(Object.entries(drains).filter(([, drain]) => !isRemoved(drain)))
    await this.#document.update(keep, this.lease)
  }

  async #advance(fleet: Fleet, before: Drain): Promise<void> {
    const facts = { ...factsOf(fleet, before.hostId), retryMs: this.#retryMs }
    const planned = planDrain(before, facts)
    // The result is recorded first, so that its event is not lost if this gateway dies before the next line.
    if (planned.endedAtMs !== 0 && before.endedAtMs === 0) await this.#recordEnd(fleet, planned)
    const drain =
      planned === before ? before : await this.#update(before.hostId, (old) => old && planDrain(old, facts), this.lease)
    const moving = drain.guests.filter(({ state }) => state === 'moving')
    await Promise.all(moving.map((guest) => this.#order(fleet, drain, guest)))
  }

  /** Orders the move of a container, unless an earlier call, maybe by another gateway, has done so. */
  async #order(fleet: Fleet, drain: Drain, { uuid, moveId, toHostId }: DrainedGuest): Promise<void> {
    const guest = fleet.view.findGuest(uuid)
    if (!guest || fleet.view.findOperation(moveId)) return
    const { bandwidthMbps, startedBy: requestedBy } = drain
    const wanted = drain.direction === 'back' ? drain.hostId : undefined
    try {
      const plan = await fleet.moveGuest({ operationId: moveId, guest, toHostId: wanted, bandwidthMbps, requestedBy })
      if (plan.toHostId !== toHostId) await this.#change(drain, (old) => recordTarget(old, moveId, plan.toHostId))
    } catch (error) {
      // It is not known whether the move has begun. The next check orders it again with the same id.
      if (error instanceof UnansweredError || isOfStore(error)) return
      const failure = { ...describeFailure(error), retryAtMs: Date.now() + this.#retryMs }
      await this.#change(drain, (old) => failMove(old, moveId, failure))
    }
  }

  async #recordEnd(fleet: Fleet, drain: Drain): Promise<void> {
    const { id, endedAtMs, ...result } = resultOf(drain)
    await fleet.hosts.recordDrain(drain.hostId, { id, endedAtMs, ...result })
    this.options.log.info({ host: drain.hostId, drain: id, ...result }, 'the drain of a host has ended')
  }

  /** Changes a drain that this gateway works on, unless another gateway has taken over the lease. */
  #change({ id, hostId }: Drain, change: (drain: Drain) => Drain): Promise<Drain> {
    return this.#update(hostId, (old) => (old?.id === id ? change(old) : old), this.lease)
  }

  async #update(hostId: string, change: (old: Drain | undefined) => Drain | undefined, lease?: Lease): Promise<Drain> {
    const drains = await this.#document.update((old) => {
      const drain = change(old[hostId])
      return drain ? forgetOldest({ ...old, [hostId]: drain }) : old
    }, lease)
    return drains[hostId]!
  }
}

/** True for drains that the worker must continue or end. */
function isUnfinished(drain: Drain): boolean {
  return isActive(drain) || drain.endedAtMs === 0
}

function isOfStore(error: unknown): boolean {
  return error instanceof BerthError && ['store_unavailable', 'lease_lost'].includes(error.code)
}

function describeFailure(error: unknown): { message: string; isFinal: boolean } {
  const { message, code } = toBerthError(error, 'the move did not begin')
  return { message, isFinal: ['unsupported', 'move_unsupported'].includes(code) }
}

function factsOf({ view }: Fleet, hostId: string): Omit<DrainFacts, 'retryMs'> {
  return {
    factsOf: (guest) => guestFacts(view.findGuest(guest.uuid), view.findOperation(guest.moveId)?.operation),
    isHostOnline: view.findHost(hostId)?.state === 'online',
    present: [...view.guestsOf(hostId)].map(({ guest }) => guest),
    newId: randomUUID,
    nowMs: Date.now(),
  }
}

const unsettled: ReadonlySet<string> = new Set([
  'creating',
  'starting',
  'stopping',
  'restarting',
  'deleting',
  'unknown',
])

function guestFacts(found: GuestView | undefined, move: DrainedGuestFacts['move']): DrainedGuestFacts {
  return { hostId: found?.hostId, isSettled: found !== undefined && !unsettled.has(statusOf(found)), move }
}
