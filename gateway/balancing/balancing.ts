import { randomUUID } from 'node:crypto'
import { steadyClock } from '../../shared/steady-clock.js'
import type { TimeFormat } from '../../shared/time.js'
import type { AuditLog } from '../access/contract.js'
import { isActive as isDraining } from '../drains/drain.js'
import type { Drains } from '../drains/drains.js'
import type { Fleet } from '../fleet/contract.js'
import { StoredDocument } from '../store/document.js'
import type { Lease } from '../store/lease.js'
import { LeasedWorker, type LeasedWorkerOptions } from '../store/leased-worker.js'
import { isActive as isUpgrading } from '../upgrades/fleet-run.js'
import type { FleetUpgrades } from '../upgrades/fleet-upgrades.js'
import {
  defaultSettings,
  initialState,
  type AutomaticMove,
  type BalancingSettings,
  type BalancingState,
  type Wait,
} from './balancing-record.js'
import { beginMove, describeFailure } from './begin-move.js'
import { chooseMove, Refusals, type ChosenMove } from './choose-move.js'
import {
  countFree,
  findBlock,
  isActive,
  planWait,
  recordCheck,
  recordFailure,
  recordMove,
  settleMoves,
  type BalancedHost,
  type MovedGuestFacts,
  type WaitFacts,
} from './plan-balancing.js'

export interface BalancingOptions extends LeasedWorkerOptions {
  readonly audit: AuditLog
  readonly drains: Pick<Drains, 'all'>
  readonly fleetUpgrades: Pick<FleetUpgrades, 'current'>
  readonly time: TimeFormat
  /** Returns the present time in ms since 1970. Default: the steady clock, because clock jumps must not begin moves. */
  readonly now?: () => number
}

/** Settings and state of automatic balancing, and the reason why no move begins. undefined: a move is about to begin. */
export interface BalancingStatus {
  readonly settings: BalancingSettings
  readonly state: BalancingState
  readonly wait: Wait | undefined
}

/** Maximum number of failed dry runs in a check, which are remembered for the next checks. The state also stores at most this many refused guests. */
const mostRefused = 20

/**
 * Carries out suggested moves by itself, if an administrator has enabled this. The store has settings and state, which
 * only one gateway at a time changes. Create the object before `store.start()`.
 */
export class Balancing {
  readonly settings: StoredDocument<BalancingSettings>
  readonly #state: StoredDocument<BalancingState>
  readonly #worker: LeasedWorker
  /** Numbers of moves whose end this gateway has recorded, by result. */
  readonly results = { done: 0, failed: 0 }
  readonly #now: () => number
  /** Tasks whose begin this gateway has written to the audit log. */
  readonly #audited = new Set<string>()

  constructor(private readonly options: BalancingOptions) {
    const { store, log, now = () => steadyClock.now() } = options
    this.settings = new StoredDocument<BalancingSettings>({
      store,
      name: 'balancing-settings',
      initial: defaultSettings,
      log,
    })
    this.#state = new StoredDocument<BalancingState>({ store, name: 'balancing-state', initial: initialState, log })
    this.#worker = new LeasedWorker(options, 'balancing-worker', 'continue to balance the fleet')
    this.#now = now
  }

  /** Only the gateway that holds this lease begins moves. All other gateways only read the state. */
  get lease(): Lease {
    return this.#worker.lease
  }

  start(fleet: Fleet): void {
    this.#worker.start(() => this.#work(fleet))
  }

  async close(): Promise<void> {
    await this.#worker.close()
  }

  /** @throws {BerthError} `store_unavailable` */
  statusOf(fleet: Fleet): BalancingStatus {
    const { current: settings } = this.settings
    const { current: state } = this.#state
    return { settings, state, wait: planWait(settings, state, this.#waitFacts(fleet)) }
  }

  #waitFacts(fleet: Fleet): WaitFacts {
    const { drains, fleetUpgrades, time } = this.options
    const nowMs = this.#now()
    const run = fleetUpgrades.current
    const timeOfDay = time.format(nowMs).slice(11, 16)
    return { nowMs, timeOfDay, isUpgrading: run !== null && isUpgrading(run), hosts: hostsOf(fleet, drains) }
  }

  /** True if the settings and the state of the fleet permit that moves begin. */
  #mayBegin(fleet: Fleet): boolean {
    return !findBlock(this.settings.current, this.#waitFacts(fleet))
  }

  async #work(fleet: Fleet): Promise<void> {
    if (!fleet.isComplete || !this.#hasWork()) return
    // Without this wait, hosts that are about to connect would count as offline.
    await fleet.expectedConnections()
    if (!(await this.lease.take())) return
    await this.#continue(fleet)
    if (!this.statusOf(fleet).wait) await this.#check(fleet)
  }

  #hasWork(): boolean {
    return this.settings.value?.enabled === true || (this.#state.value?.moves.some(isActive) ?? false)
  }

  /** Records the results of active moves, and begins those that a gateway has recorded but not begun. */
  async #continue(fleet: Fleet): Promise<void> {
    const pending = await this.#findPending(fleet)
    await this.#settle(fleet, pending)
    const isOnline = (id: string): boolean => fleet.view.findHost(id)?.state === 'online'
    for (const move of this.#state.current.moves.filter(isActive)) {
      if (!isOnline(move.fromHostId) || !isOnline(move.toHostId)) continue
      const isPermitted = this.settings.current.reasons.includes(move.reason) && this.#mayBegin(fleet)
      if (isPermitted || !pending.has(move.taskId)) await this.#begin(fleet, move)
    }
  }

  /** Returns the tasks of recorded moves that have not begun. */
  async #findPending(fleet: Fleet): Promise<ReadonlySet<string>> {
    const pending = new Set<string>()
    for (const { taskId: operationId, uuid, state } of this.#state.current.moves) {
      if (state !== 'active' || fleet.view.findOperation(operationId)) continue
      if (!(await fleet.relocation.moves.isStored({ operationId, uuid }))) pending.add(operationId)
    }
    // Another gateway has possibly just changed the settings, which decide whether these moves may begin.
    if (pending.size > 0) await this.settings.refresh()
    return pending
  }

  async #settle(fleet: Fleet, pending: ReadonlySet<string>): Promise<void> {
    const factsOf = (move: AutomaticMove): MovedGuestFacts => guestFacts(fleet, move, pending)
    const facts = { isEnabled: this.settings.current.enabled, nowMs: this.#now(), factsOf }
    const settle = (old: BalancingState): BalancingState => settleMoves(old, facts)
    if (settle(this.#state.current) !== this.#state.current) await this.#change(settle)
  }

  /** Begins as many moves as possible. Each move is chosen as if the earlier ones were done. */
  async #check(fleet: Fleet): Promise<void> {
    // Another gateway has possibly just changed the documents.
    await Promise.all([this.settings.refresh(), this.#state.refresh()])
    const { settings, wait } = this.statusOf(fleet)
    if (wait) return
    const refusals = new Refusals()
    const free = countFree(settings, this.#state.current)
    let [begun, refused] = [0, 0]
    while (begun < free && refused < mostRefused && !this.#worker.isClosed && this.#mayBegin(fleet)) {
      const { movedAt, failedDryRuns = {} } = this.#state.current
      const facts = { settings, movedAt, failedDryRuns, nowMs: this.#now() }
      const choice = await chooseMove(fleet, facts, refusals)
      if (choice === 'none') break
      if (choice === 'refused') {
        refused++
        continue
      }
      await this.#beginNew(fleet, choice)
      begun++
    }
    const shown = [...refusals.guests.values()].slice(0, mostRefused)
    const found = { refused: shown, failedDryRuns: refusals.dryRuns }
    const check = { nowMs: this.#now(), hasMoved: begun > 0, ...found }
    await this.#change((old) => recordCheck(old, settings, check))
  }

  /** Records a move and then begins it. If this gateway dies in between, another one begins it with the same id. */
  async #beginNew(fleet: Fleet, choice: ChosenMove): Promise<void> {
    const begun = { taskId: randomUUID(), beganAtMs: this.#now(), endedAtMs: 0, state: 'active', message: '' } as const
    const move = { ...choice, ...begun }
    await this.#change((old) => recordMove(old, move))
    await this.#begin(fleet, move)
  }

  /** Begins a recorded move, unless this gateway or another one has already begun it. */
  async #begin(fleet: Fleet, move: AutomaticMove): Promise<void> {
    const { taskId } = move
    const guest = fleet.view.findGuest(move.uuid)
    if (!guest || fleet.view.findOperation(taskId)) return
    const audit = this.#audited.has(taskId) ? undefined : this.options.audit
    this.#audited.add(taskId)
    try {
      await beginMove(fleet, { move, guest, audit })
    } catch (error) {
      const message = describeFailure(error)
      // The task has possibly begun, or can begin later. The next check tries it again with the same id.
      if (message === undefined) return
      await this.#change((old) => recordFailure(old, taskId, message, this.#now()))
    }
  }

  /** Changes the state, unless another gateway has taken over the lease. Counts the moves that end by the change. */
  async #change(change: (old: BalancingState) => BalancingState): Promise<void> {
    let before = new Set<string>()
    const { moves } = await this.#state.update((old) => {
      before = new Set(old.moves.filter(isActive).map(({ taskId }) => taskId))
      return change(old)
    }, this.lease)
    for (const { taskId, state } of moves) {
      if (state === 'active' || !before.has(taskId)) continue
      this.results[state]++
      this.#audited.delete(taskId)
    }
  }
}

function hostsOf({ view }: Fleet, drains: Pick<Drains, 'all'>): BalancedHost[] {
  const drained = new Set(drains.all.filter(isDraining).map(({ hostId }) => hostId))
  return view.hosts().map(({ id, state, maintenance }) => ({
    id,
    isOffline: state === 'offline',
    isDrained: drained.has(id),
    isInMaintenance: maintenance.some((window) => window.state === 'active'),
  }))
}

function guestFacts({ view }: Fleet, move: AutomaticMove, pending: ReadonlySet<string>): MovedGuestFacts {
  const { uuid, taskId, fromHostId, toHostId } = move
  return {
    hostId: view.findGuest(uuid)?.hostId,
    areAllOnline: view.hosts().every(({ state }) => state !== 'offline'), // a pending host has no guests
    task: view.findOperation(taskId)?.operation,
    isPending: pending.has(taskId),
    areHostsInFleet: [fromHostId, toHostId].every((id) => view.findHost(id) !== undefined),
  }
}
