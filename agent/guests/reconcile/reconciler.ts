import { randomUUID } from 'node:crypto'
import { Coalescer } from '../../../shared/async/coalescer.js'
import type { ObservedGuest, StopCause } from '../../drivers/contract.js'
import type { OperationEngine } from '../../operations/engine.js'
import type { GuestContext } from '../context.js'
import type { Orders } from '../../operations/orders.js'
import { guestSubject } from '../operations/guest-order.js'
import { endFenced } from '../moves/fence.js'
import { isAllowedToRun } from '../policy/policy.js'
import { guardComparison } from './guard.js'
import { NetworkComparison } from './network-comparison.js'
import { planReconcile, type Comparison, type GuestRepair } from './plan-reconcile.js'
import type { GuestRecord } from '../record/record.js'
import { RestartPolicy } from './restart-policy.js'
import { RunningGuests } from './running.js'
import { findStrays } from './strays.js'
import { CopyJournal } from '../record/copy-journal.js'
import { settleRoom } from '../snapshots/settle-room.js'
import { settleSpace } from '../snapshots/snapshot-space.js'
import { noteEvent } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'

/** Delay in ms before a comparison. Changes occur in groups, and one comparison serves a whole group. */
const lookDelayMs = 100

export interface ReconcilerParts {
  readonly context: GuestContext
  readonly orders: Orders<GuestRecord>
  readonly engine: OperationEngine
  /** Called with the running guests each time they have been read. */
  readonly onObserved: (observed: readonly ObservedGuest[]) => void
  /** Empties the trash and restores guests' disk limits. @param limitBytes limits by uuid @returns the repairs */
  readonly repairStorage: (limitBytes: ReadonlyMap<string, number>) => Promise<string[]>
}

/** Makes the host match the journal: shortly after changes of guests, and every `intervalMs` for all guests. */
export class Reconciler {
  readonly network: NetworkComparison
  readonly #ended = new Map<string, StopCause>()
  readonly #policy: RestartPolicy
  readonly #runningGuests: RunningGuests
  /** Uuids of changed guests, which the reconciler compares with the host at the time `#lookAtMs`. */
  readonly #changed = new Set<string>()
  #lookAtMs = Infinity
  #timer: NodeJS.Timeout | undefined
  #look: NodeJS.Timeout | undefined
  /** Settles when all started comparisons of single guests have ended. */
  #looking: Promise<unknown> = Promise.resolve()
  #unlisten: (() => void) | undefined
  readonly #passes = new Coalescer(() => this.#compareAll())
  #repairs = 0
  #warnings: readonly string[] = []
  #onMemoryKill: (uuid: string) => void = () => undefined

  readonly #context: GuestContext
  readonly #engine: OperationEngine

  constructor(private readonly parts: ReconcilerParts) {
    this.#context = parts.context
    this.#engine = parts.engine
    this.#policy = new RestartPolicy(this.#context.now)
    this.#runningGuests = new RunningGuests(this.#context)
    this.network = new NetworkComparison(this.#context, this.#isBusy)
  }

  readonly #isBusy = (uuid: string): boolean => this.#engine.busy(guestSubject(uuid))

  /** Number of differences that were repaired since the agent started. */
  get repairs(): number {
    return this.#repairs + this.network.repairs
  }

  get warnings(): readonly string[] {
    return [...this.#warnings, ...this.network.warnings]
  }

  /** Listens for events of guests, changes of their records, and changes that other programs make to the network. */
  listen(): void {
    this.#unlisten = this.#context.store.changes.onChange(({ kind, key, removed }) => {
      if (kind !== 'guest') return
      if (!removed) return this.#lookIn(lookDelayMs, key)
      this.#policy.forget(key)
      this.#runningGuests.forget(key)
    })
    this.#context.startGate?.onOpen(() => void this.pass())
    this.network.listen()
    for (const driver of this.#context.machines.drivers)
      driver.onStopped((uuid, cause) => {
        if (cause === 'memory') this.#onMemoryKill(uuid)
        if (this.#isBusy(uuid)) return // the running operation handles the stop
        this.#ended.set(uuid, cause)
        this.#lookIn(lookDelayMs, uuid)
      })
    for (const driver of this.#context.machines.drivers)
      driver.onEvent?.((uuid, event) => {
        if (this.#isBusy(uuid)) return // the operation's end sets the guest's status
        void this.#guard('guests', async () => noteEvent(this.#context.store, uuid, event))
      })
  }

  /** Registers a listener for guests that the kernel killed because memory ran out. */
  onMemoryKill(listener: (uuid: string) => void): void {
    this.#onMemoryKill = listener
  }

  start(intervalMs: number): void {
    this.#timer = setInterval(() => void this.pass(), intervalMs)
    this.network.start()
  }

  async close(): Promise<void> {
    this.#unlisten?.()
    clearInterval(this.#timer)
    clearTimeout(this.#look)
    await Promise.all([this.#passes.settled(), this.#looking, this.network.close()])
  }

  /**
   * Runs a comparison that begins after this call, even if another comparison is still running. Failures are logged,
   * and the next pass tries again.
   */
  pass(): Promise<void> {
    return this.#passes.run()
  }

  /** Schedules a comparison of this guest only. The comparison leaves out the network. */
  #lookIn(delayMs: number, uuid: string): void {
    this.#changed.add(uuid)
    const atMs = performance.now() + delayMs
    if (atMs >= this.#lookAtMs) return
    clearTimeout(this.#look)
    this.#lookAtMs = atMs
    this.#look = setTimeout(() => {
      this.#lookAtMs = Infinity
      const uuids = [...this.#changed]
      this.#changed.clear()
      const look = this.#guard('guests', () =>
        this.#compareGuests(uuids.flatMap((u) => this.#context.store.find(u) ?? [])),
      )
      this.#looking = Promise.all([this.#looking, look]).then(() => undefined)
    }, delayMs)
  }

  async #compareAll(): Promise<void> {
    await this.#guard('guests', () => this.#compareGuests(this.#context.store.list()))
    await this.#guard('processors', () => this.#runningGuests.move(this.#context.machines.processors.balance()))
    await this.#guard('remains of guests', async () => void (this.#warnings = await this.#findStrays()))
    await this.#guard('network', () => this.network.compare())
    await this.#guard('storage', () => this.#compareStorage())
  }

  #guard(what: string, work: () => Promise<void>): Promise<void> {
    return guardComparison(this.#context.log, what, work)
  }

  async #compareStorage(): Promise<void> {
    const { store, machines } = this.#context
    for (const { uuid } of store.list()) {
      if (!this.#isBusy(uuid)) await this.#settleSpace(uuid)
    }
    const known = store.list().filter(({ spec }) => machines.findDriver(spec.virtualization))
    const bounds = known.map((record): [string, number] => [record.uuid, volumeLimitOf(machines, record)])
    this.#noteRepairs('storage', await this.parts.repairStorage(new Map(bounds)))
  }

  async #settleSpace(uuid: string): Promise<void> {
    try {
      await settleSpace(this.#context, uuid)
      await settleRoom(this.#context, uuid, () => this.#isBusy(uuid))
    } catch (err) {
      this.#context.log.warn({ err, guest: uuid }, 'could not measure how much disk space snapshots retain')
    }
  }

  #noteRepairs(what: string, repaired: readonly string[]): void {
    this.#repairs += repaired.length
    if (repaired.length > 0) this.#context.log.warn({ repaired }, `repaired the ${what} of the host`)
  }

  async #compareGuests(records: readonly GuestRecord[]): Promise<void> {
    const idle = records.filter(({ uuid }) => !this.#isBusy(uuid))
    const observed = await this.#observe()
    this.parts.onObserved([...observed.values()])
    const comparisons = idle
      .filter((record) => this.#unchanged(record))
      .map((record) => this.#compare(record, observed))
    for (const repair of planReconcile(comparisons)) this.#apply(repair)
    const running = comparisons.flatMap(({ record: { uuid }, observed: state }) =>
      state === 'running' ? [observed.get(uuid)!] : [],
    )
    this.#noteRepairs('guests', await this.#runningGuests.ensure(running))
  }

  async #findStrays(): Promise<string[]> {
    const { store, volumes, log } = this.#context
    const copies = new CopyJournal(store.changes.db)
    const strays = await findStrays({
      store,
      volumes,
      log,
      drivers: this.#context.machines.drivers,
      isBusy: (uuid) => this.#isBusy(uuid) || copies.find(uuid) !== undefined,
    })
    return strays.map((uuid) => `guest ${uuid} is on the host but not in the journal`)
  }

  async #observe(): Promise<Map<string, ObservedGuest>> {
    const lists = await Promise.all(this.#context.machines.drivers.map((driver) => driver.observe()))
    return new Map(lists.flat().map((observed) => [observed.uuid, observed]))
  }

  /** True if the observation of a guest is still valid: the record is unchanged, and no operation of the guest runs. */
  #unchanged(record: GuestRecord): boolean {
    return !this.#isBusy(record.uuid) && this.#context.store.find(record.uuid)?.revision === record.revision
  }

  #compare(record: GuestRecord, observed: ReadonlyMap<string, ObservedGuest>): Comparison {
    const { uuid, wanted } = record
    const state = observed.get(uuid)?.state ?? 'stopped'
    if (state === 'running') this.#seenRunning(uuid)
    const ended = this.#ended.get(uuid)
    const lost = state === 'stopped' && wanted === 'running'
    const gateMs = this.#context.startGate?.leftMs ?? 0
    const holdMs = lost ? Math.max(gateMs, this.#policy.holdMs(uuid, ended !== undefined)) : 0
    if (holdMs > 0 && ended !== 'guest') this.#lookIn(holdMs, uuid)
    const blocked = !isAllowedToRun(record)
    return { record, observed: state, ended, held: holdMs > 0, blocked }
  }

  #end(uuid: string): void {
    this.#context.log.warn({ guest: uuid }, 'a guest that belongs to another host is running; it is ended')
    this.#repairs += 1
    const ended = this.#guard('guests', () => this.#context.store.mutex.run(uuid, () => endFenced(this.#context, uuid)))
    this.#looking = Promise.all([this.#looking, ended]).then(() => undefined)
  }

  #seenRunning(uuid: string): void {
    this.#ended.delete(uuid)
    this.#policy.running(uuid)
  }

  #apply(repair: GuestRepair): void {
    const { uuid } = repair
    const cause = this.#ended.get(uuid)
    this.#ended.delete(uuid)
    if (repair.kind === 'update') return this.#context.store.update(uuid, repair.update)
    if (repair.kind === 'end') return this.#end(uuid)
    this.#context.log.warn(
      { guest: uuid, cause: cause ?? 'not running' },
      'a guest that should run is not running; it is started',
    )
    this.#repairs += 1
    this.#policy.started(uuid)
    this.parts.orders.submitNow({
      operationId: randomUUID(),
      requestedBy: 'system',
      order: { $case: 'start', value: { uuid, liftBlock: false } },
    })
  }
}
