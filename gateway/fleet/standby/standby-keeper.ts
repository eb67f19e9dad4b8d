import type { Logger } from 'pino'
import { SingleFlight } from '../../../shared/async/single-flight.js'
import { BerthError, describeError } from '../../../shared/errors.js'
import { Lease } from '../../store/lease.js'
import type { Store } from '../../store/store.js'
import type { GuestView } from '../contract.js'
import type { FleetChange } from '../fleet-changes.js'
import type { MoveStore } from '../moves/move-store.js'
import { TransferTickets, type TransferTicketsOptions } from '../moves/transfer-tickets.js'
import type { GuestRegistry } from '../placement/guest-registry.js'
import type { FleetState } from '../view.js'
import { findReported } from '../reported-guests.js'
import type { MovedStandbys } from './moved-standbys.js'
import { isUnknown } from './plan-moved-standby.js'
import {
  isDue,
  isGone,
  isStale,
  isStored,
  planOrders,
  planSeen,
  type SeenResult,
  type SourceFacts,
} from './plan-standbys.js'
import type { StandbyStore, StoredStandby } from './standby-store.js'
import { getStandby, type Standbys } from './standbys.js'

const workEveryMs = 2000
const leaseMs = 30_000
const unknownText = 'the change of this standby was interrupted: set the standby again, or remove it'
/** Interval in ms in which copies that are not needed any more are removed. */
const tidyEveryMs = 60_000
/** Time in ms after which an increment without a result does not count as running: a host could hide results. */
const longestRunMs = 6 * 3_600_000
/** Time in ms after which an increment is ordered again if its guest shows no result. */
const orderAgainMs = 30_000

interface Ordered {
  readonly triedAtMs: number
  readonly atMs: number
  /** Time of the first order. */
  readonly sinceMs: number
  /** False if the host has refused the order. */
  isRunning: boolean
}

export interface StandbyKeeperOptions extends TransferTicketsOptions {
  readonly store: Store
  readonly view: FleetState
  readonly standbys: Standbys
  readonly standbyStore: Pick<StandbyStore, 'list' | 'replace'>
  readonly moved: Pick<MovedStandbys, 'restoreAll'>
  readonly moves: Pick<MoveStore, 'list'>
  /** Evacuations that have not ended. */
  readonly evacuations: { list(): Promise<readonly { readonly uuid: string }[]> }
  readonly registry: Pick<GuestRegistry, 'findGone'>
  readonly log: Logger
}

/**
 * Orders the increments of all warm standbys, and removes copies that are not needed any more. Only the gateway that
 * holds the lease does this. A second order of an increment has no effect, so calls need no fence.
 */
export class StandbyKeeper {
  readonly lease: Lease
  readonly #tickets: TransferTickets
  readonly #working = new SingleFlight()
  /** Times of orders, by uuid of the guest, until the guest shows a result. */
  readonly #ordered = new Map<string, Ordered>()
  /** Last results, by uuid of the guest. */
  #seen = new Map<string, SeenResult>()
  /** Ids of the standbys that the store did not have in the last round. */
  #unknown: ReadonlySet<string> = new Set()
  #tidiedMs = performance.now()
  /**
   * Time of the earliest move that was not checked for lost standbys yet. Undefined: there is no such move. It is set at
   * the start, because a guest may have moved before.
   */
  #movedSinceMs: number | undefined = performance.now()
  #timer: NodeJS.Timeout | undefined
  #unlisten: (() => void) | undefined

  constructor(private readonly options: StandbyKeeperOptions) {
    this.lease = new Lease(options.store, 'standby-worker', leaseMs)
    this.#tickets = new TransferTickets(options)
  }

  start(): void {
    this.#timer = setInterval(() => void this.#working.run(() => this.work()), workEveryMs)
    this.#unlisten = this.options.view.changes.listen((change) => {
      if (isMove(change)) this.#noteMove()
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#unlisten?.()
    await this.#working.settled()
    await this.lease.release().catch(() => undefined) // if this fails, the lease expires
  }

  /**
   * Orders the increments that are due, and sets the standbys of moved guests again. If `isUntidy`, removes old copies.
   * Never rejects.
   */
  async work(isUntidy = performance.now() - this.#tidiedMs > tidyEveryMs): Promise<void> {
    const isMoved = this.#movedSinceMs !== undefined || isUntidy
    try {
      const guests = [...this.options.view.guests()].filter(({ guest }) => guest.standby !== undefined)
      this.#noteResults(guests)
      const due = guests.filter((guest) => this.#isDue(guest))
      if (due.length === 0 && !isMoved) return
      if (!(await this.lease.take())) return this.#leaveToHolder()
      this.#movedSinceMs = undefined
      const [relocating, stored] = await Promise.all([this.#readRelocating(), this.options.standbyStore.list()])
      const settled = due.filter(({ guest }) => !relocating.has(guest.uuid))
      const recorded = settled.filter((view) => isStored(view, stored.get(view.guest.uuid)))
      const running = guests.filter((view) => this.#isRunning(view))
      await Promise.all(planOrders(recorded, running).map((guest) => this.#orderQuietly(guest)))
      await this.#refuseUnknown(settled.filter((view) => isUnknown(view, stored.get(view.guest.uuid))))
      // This precedes the tidying, which waits for slow hosts. The data from the store would be too old after it.
      if (isMoved && (await this.options.moved.restoreAll(relocating, stored))) this.#noteMove()
      if (isUntidy) await this.#tidy(relocating, stored)
    } catch (error) {
      if (isMoved) this.#noteMove()
      this.options.log.debug({ reason: describeError(error) }, 'could not check the standbys; trying again later')
    }
  }

  #noteMove(): void {
    this.#movedSinceMs ??= performance.now()
  }

  /**
   * The gateway with the lease handles the same moves. This gateway remembers them for two lease times, because that
   * gateway may be dead.
   */
  #leaveToHolder(): void {
    if (performance.now() - (this.#movedSinceMs ?? 0) > 2 * leaseMs) this.#movedSinceMs = undefined
  }

  async #readRelocating(): Promise<Set<string>> {
    const { moves, evacuations } = this.options
    const all = await Promise.all([moves.list(), evacuations.list()])
    return new Set(all.flat().map(({ uuid }) => uuid))
  }

  /** Notes results that are new, and forgets guests that have no standby any more. */
  #noteResults(guests: readonly GuestView[]): void {
    const nowMs = Date.now()
    const see = ({ guest: { uuid, standby } }: GuestView): [string, SeenResult] => [
      uuid,
      planSeen(this.#seen.get(uuid), standby!, nowMs),
    ]
    this.#seen = new Map(guests.map(see))
    for (const uuid of this.#ordered.keys()) if (!this.#seen.has(uuid)) this.#ordered.delete(uuid)
  }

  /** Finds the order of the guest's next increment, which has not ended. */
  #findOrdered({ guest: { uuid, standby } }: GuestView): Ordered | undefined {
    const ordered = this.#ordered.get(uuid)
    return ordered?.triedAtMs === standby?.triedAtMs ? ordered : undefined
  }

  #isRunning(view: GuestView): boolean {
    const ordered = this.#findOrdered(view)
    if (!view.online || !ordered?.isRunning) return false
    return performance.now() - ordered.sinceMs < longestRunMs
  }

  #isDue(view: GuestView): boolean {
    const ordered = this.#findOrdered(view)
    if (ordered && performance.now() - ordered.atMs < orderAgainMs) return false
    return isDue(view, this.#seen.get(view.guest.uuid)!.seenMs, Date.now())
  }

  /**
   * Reports a standby that the store does not have as failed, so that an operator sees it. Waits for a second round,
   * because a gateway can be changing the standby now. The copy stays: the store can have lost its data.
   */
  async #refuseUnknown(guests: readonly GuestView[]): Promise<void> {
    const before = this.#unknown
    this.#unknown = new Set(guests.map(({ guest }) => guest.standby!.standbyId))
    const lasting = guests.filter(({ guest }) => before.has(guest.standby!.standbyId))
    await Promise.all(lasting.map((view) => this.#orderQuietly(view, unknownText)))
  }

  /** @param refusal why no increment may be sent; empty: it may */
  async #orderQuietly(view: GuestView, refusal = ''): Promise<void> {
    const { uuid, standby } = view.guest
    const atMs = performance.now()
    const { sinceMs = atMs } = this.#findOrdered(view) ?? {}
    const ordered = { triedAtMs: standby!.triedAtMs, atMs, sinceMs, isRunning: true }
    this.#ordered.set(uuid, ordered)
    try {
      await this.#order(view, refusal)
    } catch (error) {
      if (error instanceof BerthError && error.code === 'guest_busy') return
      ordered.isRunning = false
      this.options.log.info({ guest: uuid, reason: describeError(error) }, 'could not order an increment of a standby')
    }
  }

  async #order(view: GuestView, knownRefusal: string): Promise<void> {
    const { standbys } = this.options
    const { uuid } = view.guest
    const { standbyId, hostId } = getStandby(view)
    const order = { uuid, standbyId, toAddress: '', toSerials: [], ticket: '', refusal: '' }
    const { moves } = standbys.agent(view.hostId)
    const refusal = knownRefusal || (await this.#prepare(view))
    if (refusal !== '') return void (await moves.syncStandby({ ...order, refusal }))
    const { address: toAddress, serials } = this.options.view.findState(hostId)!.record
    const transfer = { id: standbyId, uuid, fromHostId: view.hostId, toHostId: hostId }
    await this.#tickets.submit(transfer, (ticket) =>
      moves.syncStandby({ ...order, toAddress, toSerials: [...serials], ticket }),
    )
  }

  /** Prepares the host of the standby. @returns why it refuses the copy; empty: it does not */
  async #prepare(view: GuestView): Promise<string> {
    const { standbyId, hostId } = getStandby(view)
    const host = this.options.view.findHost(hostId)
    if (!host) return 'the host of the standby was removed'
    try {
      await this.options.standbys.expect(view, { standbyId, host, dryRun: false })
      return ''
    } catch (error) {
      if (error instanceof BerthError) return error.message
      throw error
    }
  }

  async #tidy(relocating: ReadonlySet<string>, stored: ReadonlyMap<string, StoredStandby>): Promise<void> {
    this.#tidiedMs = performance.now()
    await this.#withdrawEnded(stored)
    // This runs in parallel, so that unresponsive hosts delay the increments only once.
    const hostIds = [...this.options.view.states()].map(({ record }) => record.id)
    await Promise.all(hostIds.map((hostId) => this.#tidyHostQuietly(hostId, relocating)))
  }

  async #tidyHostQuietly(hostId: string, relocating: ReadonlySet<string>): Promise<void> {
    try {
      await this.#tidyHost(hostId, relocating)
    } catch (error) {
      this.options.log.debug({ host: hostId, reason: describeError(error) }, 'could not check copies of standbys')
    }
  }

  async #tidyHost(hostId: string, relocating: ReadonlySet<string>): Promise<void> {
    const { standbys, view } = this.options
    const copies = await standbys.listCopies(hostId)
    const gone = await this.#findGone(copies)
    for (const copy of copies) {
      const { uuid } = copy
      const facts = { guest: view.findGuest(uuid), isGone: gone.has(uuid), isRelocating: relocating.has(uuid) }
      if (isStale(copy, hostId, facts)) await standbys.forget(uuid, { ...copy, hostId })
    }
  }

  /** Removes the records of standbys whose guest was deleted. */
  async #withdrawEnded(stored: ReadonlyMap<string, StoredStandby>): Promise<void> {
    const gone = await this.#findGone([...stored].map(([uuid, { fromHostId }]) => ({ uuid, fromHostId })))
    for (const uuid of gone) await this.options.standbyStore.replace(uuid, stored.get(uuid)!.standbyId, undefined)
  }

  /** Returns the uuids of guests that were certainly deleted. */
  async #findGone(guests: readonly { readonly uuid: string; readonly fromHostId: string }[]): Promise<Set<string>> {
    const unregistered = new Set(await this.options.registry.findGone(guests.map(({ uuid }) => uuid)))
    const gone = guests.filter(({ uuid, fromHostId }) =>
      isGone(this.#sourceOf(fromHostId, uuid), !unregistered.has(uuid)),
    )
    return new Set(gone.map(({ uuid }) => uuid))
  }

  #sourceOf(hostId: string, uuid: string): SourceFacts | undefined {
    const host = this.options.view.findState(hostId)
    return host && { online: host.online, hasGuest: findReported(host, uuid) !== undefined }
  }
}

/** True if a guest is on another host now, or if the guests of a host may have moved while it was offline. */
function isMove(change: FleetChange): boolean {
  if (change.kind === 'host') return change.before?.state !== change.after?.state
  if (change.kind !== 'guest' || !change.before || !change.after) return false
  return change.before.hostId !== change.after.hostId
}
