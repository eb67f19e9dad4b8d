import { randomUUID } from 'node:crypto'
import { Coalescer } from '../../../shared/async/coalescer.js'
import type { Driver, ObservedGuest, StopCause } from '../../drivers/contract.js'
import type { NetworkPart, WantedNetwork } from '../../network/contract.js'
import type { OperationEngine } from '../../operations/engine.js'
import type { GuestContext } from '../context.js'
import type { Orders } from '../../operations/orders.js'
import { networkOf } from '../resources/network.js'
import { guestSubject } from '../operations/guest-order.js'
import { isAllowedToRun } from '../policy/policy.js'
import { LostInterfaces } from './lost-interfaces.js'
import { planReconcile, type Comparison, type GuestRepair } from './plan-reconcile.js'
import type { GuestRecord } from '../record/record.js'
import { RestartPolicy } from './restart-policy.js'
import { RunningGuests } from './running.js'
import { settleRoom } from '../snapshots/settle-room.js'
import { settleSpace } from '../snapshots/snapshot-space.js'
import { noteEvent } from '../steps.js'
import { boundOf } from '../snapshots/volume-bound.js'

/** Delay before a comparison: changes come in groups, and one comparison serves them all. */
const lookDelayMs = 100

/** Interval of network comparisons in ms, so that changes by other programs are repaired within 5 s. */
const networkMs = 3000

export interface ReconcilerParts {
  readonly context: GuestContext
  readonly orders: Orders<GuestRecord>
  readonly engine: OperationEngine
  /** Called with the running guests each time they were read. */
  readonly onObserved: (observed: readonly ObservedGuest[]) => void
  /** Empties the trash and restores quotas. @param limitBytes limits by uuid @returns the repairs */
  readonly repairStorage: (limitBytes: ReadonlyMap<string, number>) => Promise<string[]>
}

/** Compares the host with the journal: at once on events, in full every `intervalMs`. */
export class Reconciler {
  readonly #ended = new Map<string, StopCause>()
  readonly #policy: RestartPolicy
  readonly #runningGuests: RunningGuests
  /** Guests to compare, and the time to do so. */
  readonly #changed = new Set<string>()
  #lookAtMs = Infinity
  #timer: NodeJS.Timeout | undefined
  #networkTimer: NodeJS.Timeout | undefined
  readonly #network = new Coalescer(() => this.#compareNetwork())
  readonly #rates = new Coalescer(() => this.#compareRates())
  readonly #interfaces: LostInterfaces
  #look: NodeJS.Timeout | undefined
  /** Settles once the comparisons of single guests have ended. */
  #looking: Promise<unknown> = Promise.resolve()
  #unlisten: (() => void) | undefined
  readonly #passes = new Coalescer(() => this.#compareAll())
  #repairs = 0
  #warnings: readonly string[] = []
  #onMemoryKill: (uuid: string) => void = () => undefined

  /** Guests in the network's terms, cached until the list of guests changes. */
  #planned: { readonly records: readonly GuestRecord[]; readonly networks: readonly WantedNetwork[] } = {
    records: [],
    networks: [],
  }

  readonly #context: GuestContext
  readonly #engine: OperationEngine

  constructor(private readonly parts: ReconcilerParts) {
    this.#context = parts.context
    this.#engine = parts.engine
    this.#policy = new RestartPolicy(this.#context.now)
    this.#runningGuests = new RunningGuests(this.#context)
    this.#interfaces = new LostInterfaces(this.#context, (uuid) => this.#engine.busy(guestSubject(uuid)))
  }

  /** Number of differences that were repaired since the agent started. */
  get repairs(): number {
    return this.#repairs
  }

  /** Warnings for an operator. */
  get warnings(): readonly string[] {
    return [...this.#warnings, ...this.#interfaces.warnings]
  }

  /** Listens to guests' own stops, to changes of guests in the journal, and to changes of nft by other programs. */
  listen(): void {
    this.#unlisten = this.#context.store.changes.onChange(({ kind, key, removed }) => {
      if (kind !== 'guest') return
      if (!removed) return this.#lookIn(lookDelayMs, key)
      this.#policy.forget(key)
      this.#runningGuests.forget(key)
    })
    this.#context.network.onDisturbed((part) =>
      part === 'rates'
        ? void this.#guard('rates', () => this.#rates.run())
        : void this.#guard('network', () => this.compareNetwork()),
    )
    for (const driver of this.#drivers)
      driver.onStopped((uuid, cause) => {
        if (cause === 'memory') this.#onMemoryKill(uuid)
        if (this.#engine.busy(guestSubject(uuid))) return // the operation handles it
        this.#ended.set(uuid, cause)
        this.#lookIn(lookDelayMs, uuid)
      })
    for (const driver of this.#drivers)
      driver.onEvent?.((uuid, event) => {
        if (this.#engine.busy(guestSubject(uuid))) return // the operation's end says what the guest is
        void this.#guard('events', async () => noteEvent(this.#context, uuid, event))
      })
  }

  /** Called when the kernel killed a guest because memory ran out. */
  onMemoryKill(listener: (uuid: string) => void): void {
    this.#onMemoryKill = listener
  }

  start(intervalMs: number): void {
    this.#timer = setInterval(() => void this.pass(), intervalMs)
    this.#networkTimer = setInterval(() => void this.#guard('network', () => this.compareNetwork()), networkMs)
  }

  async close(): Promise<void> {
    this.#unlisten?.()
    clearInterval(this.#timer)
    clearInterval(this.#networkTimer)
    clearTimeout(this.#look)
    await Promise.all([this.#passes.settled(), this.#looking, this.#network.settled(), this.#rates.settled()])
  }

  /** Resolves after a comparison that starts after this call. Failures are logged, and the next pass tries again. */
  pass(): Promise<void> {
    return this.#passes.run()
  }

  /** Schedules a comparison of only this guest, without the network. */
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
    await this.#guard('processors', () => this.#runningGuests.move(this.#context.processors.balance()))
    await this.#guard('strays', async () => void (this.#warnings = await this.#findStrays()))
    await this.#guard('network', () => this.compareNetwork())
    await this.#guard('storage', () => this.#compareStorage())
  }

  async #guard(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (err) {
      this.#context.log.error({ err }, `compare ${what}`)
    }
  }

  /** Converges parts of the network with the current journal. @throws {BerthError} the host's first refusal */
  async ensureNetwork(parts: readonly NetworkPart[]): Promise<void> {
    this.#noteRepairs('network', await this.#context.network.ensure(this.#planNetworks(), parts))
  }

  /**
   * Converges the network with the journal as of this call or later.
   * @throws {BerthError} the host's first refusal
   */
  compareNetwork(): Promise<void> {
    return this.#network.run()
  }

  /** Interfaces are recreated after their rules are in place, and get their rates afterwards. */
  async #compareNetwork(): Promise<void> {
    await this.ensureNetwork(['rules'])
    await this.#compareInterfaces()
    await this.ensureNetwork(['addresses', 'rates'])
  }

  /** Recreates lost interfaces and sets rates, after interfaces were added or removed. */
  async #compareRates(): Promise<void> {
    await this.#compareInterfaces()
    await this.ensureNetwork(['rates'])
  }

  async #compareInterfaces(): Promise<void> {
    this.#noteRepairs('network', await this.#interfaces.ensure())
  }

  #planNetworks(): readonly WantedNetwork[] {
    const records = this.#context.store.list()
    if (records !== this.#planned.records)
      this.#planned = { records, networks: records.map((record) => networkOf(record, this.#context)) }
    return this.#planned.networks
  }

  async #compareStorage(): Promise<void> {
    const { store, drivers } = this.#context
    for (const { uuid } of store.list()) {
      const isBusy = (): boolean => this.#engine.busy(guestSubject(uuid))
      if (!isBusy()) await this.#settleSpace(uuid, isBusy)
    }
    const bounds = store.list().flatMap((record): [string, number][] => {
      const driver = drivers[record.spec.virtualization]
      return driver ? [[record.uuid, boundOf(driver, this.#context, record)]] : []
    })
    this.#noteRepairs('storage', await this.parts.repairStorage(new Map(bounds)))
  }

  async #settleSpace(uuid: string, isBusy: () => boolean): Promise<void> {
    try {
      await settleSpace(this.#context, uuid)
      await settleRoom(this.#context, uuid, isBusy)
    } catch (err) {
      this.#context.log.warn({ err, guest: uuid }, 'measure what snapshots retain')
    }
  }

  #noteRepairs(what: string, repaired: readonly string[]): void {
    this.#repairs += repaired.length
    if (repaired.length > 0) this.#context.log.warn({ repaired }, `${what} repaired`)
  }

  async #compareGuests(records: readonly GuestRecord[]): Promise<void> {
    const idle = records.filter(({ uuid }) => !this.#engine.busy(guestSubject(uuid)))
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

  /**
   * Reports guests on the host that the journal does not have. They are not removed, as the journal may be an old one.
   * Exceptions are guests that it records as removed: after a power loss their files may be back.
   */
  async #findStrays(): Promise<string[]> {
    const strays: string[] = []
    for (const uuid of await this.#listTraces()) {
      if (this.#context.store.find(uuid) || this.#engine.busy(guestSubject(uuid))) continue
      if (!(await this.#removeForgotten(uuid))) strays.push(uuid)
    }
    return strays.map((uuid) => `guest ${uuid} is on the host but not in the journal`)
  }

  async #listTraces(): Promise<Set<string>> {
    const lists = this.#drivers.map((driver) => driver.listTraces())
    return new Set((await Promise.all([this.#context.volumes.list(), ...lists])).flat())
  }

  /** @returns false if the journal does not record it as removed, or it runs */
  async #removeForgotten(uuid: string): Promise<boolean> {
    if (!this.#context.store.changes.wasRemoved('guest', uuid)) return false
    try {
      for (const driver of this.#drivers) if (!(await driver.removeTraces(uuid))) return false
      await this.#context.volumes.remove(uuid)
      return true
    } catch (err) {
      this.#context.log.warn({ err, guest: uuid }, 'remove what is left of a deleted guest')
      return false
    }
  }

  get #drivers(): Driver[] {
    return Object.values(this.#context.drivers).filter((driver) => driver !== undefined)
  }

  async #observe(): Promise<Map<string, ObservedGuest>> {
    const lists = await Promise.all(this.#drivers.map((driver) => driver.observe()))
    return new Map(lists.flat().map((observed) => [observed.uuid, observed]))
  }

  /**
   * True if the record is still the one that was compared. An observation is worthless if an operation began or ended
   * meanwhile.
   */
  #unchanged(record: GuestRecord): boolean {
    return (
      !this.#engine.busy(guestSubject(record.uuid)) &&
      this.#context.store.find(record.uuid)?.revision === record.revision
    )
  }

  #compare(record: GuestRecord, observed: ReadonlyMap<string, ObservedGuest>): Comparison {
    const { uuid, wanted } = record
    const state = observed.get(uuid)?.state ?? 'stopped'
    if (state === 'running') this.#seenRunning(uuid)
    const ended = this.#ended.get(uuid)
    const lost = state === 'stopped' && wanted === 'running'
    const holdMs = lost ? this.#policy.holdMs(uuid, ended !== undefined) : 0
    if (holdMs > 0 && ended !== 'guest') this.#lookIn(holdMs, uuid)
    const blocked = !isAllowedToRun(record)
    return { record, observed: state, ended, held: holdMs > 0, blocked }
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
    this.#context.log.warn({ guest: uuid, cause: cause ?? 'not running' }, 'starting a guest that should run')
    this.#repairs += 1
    this.#policy.started(uuid)
    this.parts.orders.submitNow({
      operationId: randomUUID(),
      requestedBy: 'system',
      order: { $case: 'start', value: { uuid, liftBlock: false } },
    })
  }
}
