import { randomUUID } from 'node:crypto'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import { BerthError, toBerthError } from '../../shared/errors.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import type { BegunEvacuation } from '../fleet/move-contract.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import { StoredDocument } from '../store/document.js'
import type { Lease } from '../store/lease.js'
import { LeasedWorker, type LeasedWorkerOptions } from '../store/leased-worker.js'
import { newDrainedGuest, resultOf, type Drain, type DrainedGuest, type DrainMode, type DrainsByHost } from './drain.js'
import { planCommand, planReturn, refuseSecondDrain, type DrainCommand } from './plan-command.js'
import {
  failTask,
  forgetOldest,
  planDrain,
  recordTarget,
  type DrainedGuestFacts,
  isBusy,
  type DrainFacts,
  type TaskFailure,
} from './plan-drain.js'

type OrderCase = SubmitOperationRequest['order']

export interface DrainsOptions extends LeasedWorkerOptions {
  /** Returns a backup target with its secrets. */
  readonly openTarget: (id: string) => Promise<BackupTarget>
  /** Pause in ms between two attempts to move, stop or start a container. Default: 30 s. */
  readonly retryMs?: number
}

export interface DrainRequest {
  readonly id: string
  readonly hostId: string
  readonly mode: DrainMode
  readonly parallel: number
  readonly bandwidthMbps: number
  /** Time in ms since 1970 after which no further container is moved or stopped. 0: never. */
  readonly deadlineMs: number
  readonly startedBy: string
}

/**
 * Moves all containers of a host to other hosts, a few at a time, and moves them back later. With the mode `stop`,
 * containers are stopped, and started again later. The store has the state of drains, which only one gateway at a time
 * changes. Create the object before `store.start()`.
 */
export class Drains {
  readonly #document: StoredDocument<DrainsByHost>
  readonly #worker: LeasedWorker
  readonly #retryMs: number
  /** Calls in progress that start tasks, by id of the task. */
  readonly #orders = new KeyedSingleFlight<string>()

  constructor(private readonly options: DrainsOptions) {
    const { store, log, retryMs = 30_000 } = options
    this.#retryMs = retryMs
    this.#document = new StoredDocument<DrainsByHost>({ store, name: 'drains', initial: {}, log })
    this.#worker = new LeasedWorker(options, 'drain-worker', 'continue the drains')
  }

  /** Returns the last drain of a host. @throws {BerthError} `store_unavailable` */
  find(hostId: string): Drain | undefined {
    return this.#document.current[hostId]
  }

  /** Last drains of all hosts. Empty until the store has been read. */
  get all(): readonly Drain[] {
    return Object.values(this.#document.value ?? {})
  }

  /** Only the gateway that holds this lease starts the tasks of drains. All other gateways only read the state. */
  get lease(): Lease {
    return this.#worker.lease
  }

  start(fleet: Fleet): void {
    this.#worker.start(() => this.#work(fleet))
  }

  async close(): Promise<void> {
    await this.#worker.close(() => Promise.all(this.#orders.keys.map((taskId) => this.#orders.settled(taskId))))
  }

  /**
   * Closes a host for new containers, and begins to move its containers to other hosts, or to stop them. A
   * repeated call with the same id changes nothing. An evacuation replaces an earlier drain of the failed host.
   * @throws {BerthError} `drain_running`, `not_found`, `store_unavailable`
   */
  async begin(fleet: Fleet, request: DrainRequest): Promise<Drain> {
    const known = this.find(request.hostId)
    if (known?.id === request.id) return known
    refuseSecondDrain(known, request.mode)
    await fleet.hosts.updateHost(request.hostId, { draining: true })
    const guests = [...fleet.view.guestsOf(request.hostId)].map(({ guest }) => newDrainedGuest(guest))
    return this.#update(request.hostId, (old) => {
      refuseSecondDrain(old, request.mode)
      return { ...request, direction: 'away', state: 'running', guests, startedAtMs: Date.now(), endedAtMs: 0 }
    })
  }

  /** @throws {BerthError} `invalid_state`, `not_found`, `store_unavailable` */
  async command(fleet: Fleet, hostId: string, command: DrainCommand): Promise<Drain> {
    if (command === 'resume' && planCommand(this.find(hostId), command).direction === 'away')
      await fleet.hosts.updateHost(hostId, { draining: true })
    return this.#update(hostId, (old) => planCommand(old, command))
  }

  /**
   * @param mode mode of a drain that is about to begin. Absent: the host is about to be opened or closed
   * @throws {BerthError} `drain_running` if the host has another drain, which must not be disturbed
   */
  refuseDisturbance(hostId: string, mode?: DrainMode): void {
    refuseSecondDrain(this.find(hostId), mode)
  }

  /**
   * Cancels the drain of a host, and opens the host for new containers again. If the opening fails, a repeated call
   * opens the host.
   * @param options.bringBack true: containers that the drain has moved away return to the host, and those it has
   * stopped are started
   * @returns undefined if the host was never drained
   * @throws {BerthError} `invalid_state`, `drain_running`, `not_found`, `store_unavailable`
   */
  async undrain(fleet: Fleet, hostId: string, { bringBack }: { bringBack: boolean }): Promise<Drain | undefined> {
    const before = this.find(hostId)
    const isCancelable = before?.direction === 'away' && ['running', 'paused'].includes(before.state)
    const plan = bringBack ? planReturn : (old: Drain | undefined) => planCommand(old, 'cancel')
    const drain = bringBack || isCancelable ? await this.#update(hostId, plan) : before
    await fleet.hosts.updateHost(hostId, { draining: false })
    return drain
  }

  async #work(fleet: Fleet): Promise<void> {
    const needsWork = (drain: Drain): boolean => drain.endedAtMs === 0 || !isRecorded(fleet, drain)
    if (!fleet.isComplete || !this.all.some(needsWork)) return
    // Without this wait, hosts that are about to connect would count as offline.
    await fleet.expectedConnections()
    if (!(await this.lease.take())) return
    await this.#forgetRemovedHosts(fleet)
    await Promise.all(this.all.filter(needsWork).map((drain) => this.#advance(fleet, drain)))
  }

  async #forgetRemovedHosts(fleet: Fleet): Promise<void> {
    const isRemoved = ({ hostId }: Drain): boolean => fleet.view.findHost(hostId) === undefined
    if (!this.all.some(isRemoved)) return
    const keep = (drains: DrainsByHost): DrainsByHost =>
      Object.fromEntries(Object.entries(drains).filter(([, drain]) => !isRemoved(drain)))
    await this.#document.update(keep, this.lease)
  }

  async #advance(fleet: Fleet, before: Drain): Promise<void> {
    const isExpecting = !isBusy(before) && (await fleet.isExpecting(before.hostId))
    const facts = { ...factsOf(fleet, before), isExpecting, retryMs: this.#retryMs }
    const planned = planDrain(before, facts)
    const drain = planned === before ? before : await this.#change(before, (old) => planDrain(old, facts))
    if (drain.endedAtMs !== 0) return this.#recordEnd(fleet, drain)
    // The start of a task is not awaited, because a slow host must not delay the other drains.
    for (const guest of drain.guests)
      if (guest.state === 'active')
        void this.#orders.run(guest.taskId, () =>
          this.#order(fleet, drain, guest).catch((error: unknown) => this.#worker.logFailure(error)),
        )
  }

  /** Starts the task of a container, unless this gateway or another one has already started it. */
  async #order(fleet: Fleet, drain: Drain, { uuid, taskId, toHostId, refusedBy }: DrainedGuest): Promise<void> {
    if (fleet.view.findOperation(taskId)) return
    const guest = fleet.view.findGuest(uuid)
    try {
      if (drain.mode === 'evacuate') {
        const begun = await this.#evacuate(fleet, drain, { uuid, taskId, refusedBy })
        return void (await this.#change(drain, (old) => recordTarget(old, taskId, begun)))
      }
      if (!guest) return
      if (drain.mode === 'stop') return await switchPower(fleet, drain, { guest, taskId })
      const target = await beginMove(fleet, drain, { guest, taskId, refusedBy })
      if (target !== toHostId) await this.#change(drain, (old) => recordTarget(old, taskId, { toHostId: target }))
    } catch (error) {
      // The task has possibly begun. The next check orders the task again. The same id prevents a second start.
      if (error instanceof UnansweredError || isOfStore(error)) return
      const failure = { ...describeFailure(error, drain), retryAtMs: Date.now() + this.#retryMs }
      await this.#change(drain, (old) => failTask(old, taskId, failure))
    }
  }

  #evacuate(
    fleet: Fleet,
    { hostId, startedBy: requestedBy }: Drain,
    { uuid, taskId: operationId, refusedBy }: Pick<DrainedGuest, 'uuid' | 'taskId' | 'refusedBy'>,
  ): Promise<BegunEvacuation> {
    const { openTarget } = this.options
    return fleet.relocation.evacuations.begin({ operationId, uuid, hostId, refusedBy, requestedBy, openTarget })
  }

  /** Records the result of a drain in the host's record. This creates an event. A repeated call has no effect. */
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

interface GuestTask {
  readonly guest: GuestView
  readonly taskId: string
}

/** Begins the move of a container. @returns id of its target */
async function beginMove(
  fleet: Fleet,
  drain: Drain,
  { guest, taskId: operationId, refusedBy }: GuestTask & Pick<DrainedGuest, 'refusedBy'>,
): Promise<string> {
  const { bandwidthMbps, startedBy: requestedBy } = drain
  const toHostId = drain.direction === 'back' ? drain.hostId : undefined
  // A guest whose move failed stays on this host. If a placement rule binds another guest to it, that guest stays, too.
  const alsoMoving = drain.guests.filter(({ state }) => state !== 'failed').map(({ uuid }) => uuid)
  const choice = { toHostId, refusedBy, alsoMoving, bandwidthMbps, offline: false }
  return (await fleet.relocation.moves.begin({ operationId, guest, ...choice, requestedBy })).toHostId
}

/** Begins the graceful stop of a container. If the direction of the drain is `back`, begins its start instead. */
async function switchPower(fleet: Fleet, drain: Drain, { guest, taskId: operationId }: GuestTask): Promise<void> {
  const { uuid } = guest.guest
  const order: OrderCase =
    drain.direction === 'away'
      ? { $case: 'stop', value: { uuid, force: false } }
      : { $case: 'start', value: { uuid, liftBlock: false } }
  const { operations } = fleet.agent(drain.hostId)
  const { revision } = await operations.submitOperation({ operationId, requestedBy: drain.startedBy, order })
  await fleet.reached(drain.hostId, revision)
}

/** True if the record of the host contains the result of the drain. A removed host needs no result. */
function isRecorded({ view }: Fleet, { id, hostId, endedAtMs }: Drain): boolean {
  const host = view.findHost(hostId)
  return host === undefined || (host.drained?.id === id && host.drained.endedAtMs === endedAtMs)
}

function isOfStore(error: unknown): boolean {
  return error instanceof BerthError && ['store_unavailable', 'lease_lost'].includes(error.code)
}

function describeFailure(error: unknown, { mode }: Drain): Pick<TaskFailure, 'message' | 'kind'> {
  const { message, code } = toBerthError(error, 'the task could not be started: see the log of the gateway')
  const finalCodes = [
    'unsupported',
    'move_unsupported',
    'offline_required',
    'agent_outdated',
    'backup_missing',
    'not_found',
    'invalid_state',
  ]
  if (finalCodes.includes(code)) return { message, kind: 'final' }
  // An evacuation counts attempts with these codes, because a guest can stay busy until its failed host returns.
  const isPassing = mode !== 'evacuate' && ['guest_moving', 'guest_busy'].includes(code)
  return isPassing ? { message, kind: 'passing' } : { message }
}

function factsOf({ view }: Fleet, { hostId, mode }: Drain): Omit<DrainFacts, 'isExpecting' | 'retryMs'> {
  return {
    factsOf: (guest) => {
      const facts = guestFacts(view.findGuest(guest.uuid), view.findOperation(guest.taskId)?.operation)
      // A container on a failed host keeps the status `unknown`. An evacuation must not wait for another status.
      return mode === 'evacuate' ? { ...facts, isSettled: true } : facts
    },
    isHostOnline: view.findHost(hostId)?.state === 'online',
    areAllOnline: view.hosts().every(({ state }) => state === 'online'),
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

function guestFacts(found: GuestView | undefined, task: DrainedGuestFacts['task']): DrainedGuestFacts {
  // `guest.status` is the power state even if the container is marked as deleted. `statusOf` would return `deleted`.
  const status = found?.online ? found.guest.status : 'unknown'
  return { hostId: found?.hostId, isSettled: !unsettled.has(status), isStopped: status === 'stopped', task }
}
