import { KeyedSingleFlight, SingleFlight } from '../../shared/async/single-flight.js'
import { securityUser } from '../../shared/abuse.js'
import { describeError } from '../../shared/errors.js'
import { createTimeFormat, type TimeFormat } from '../../shared/time.js'
import type { GuestContext, PolicyKeeper, TrafficUse } from '../guests/context.js'
import { networkOf } from '../guests/resources/network.js'
import { isAllowedToRun, policyReasonOf } from '../guests/policy/policy.js'
import type { GuestPolicy, GuestRecord } from '../guests/record/record.js'
import { planUnsuspend } from '../guests/policy/suspension.js'
import type { ByteCounters, Network } from '../network/contract.js'
import { isLiftDue, policyOf, type UncertainClock } from './expiry.js'
import { periodEndMs, periodStart, utcOffsetMinutes } from './period.js'
import { isUsedUp, noBytes, planCount, type CountLook, type TrafficCount } from './plan-count.js'
import { TrafficStore } from './traffic-store.js'

/** Time in ms after which the stop of a guest that still runs is requested again. */
const stopAgainMs = 60_000

/** Number of consecutive timer ticks that do not read the counters while no guest has a quota. */
const uncountedTicks = 2

export interface KeeperParts {
  readonly context: Pick<GuestContext, 'config' | 'store' | 'log' | 'now'> & {
    readonly network: Pick<Network, 'attach' | 'readCounters'>
  }
  readonly clock: UncertainClock
  /** True if an operation of the guest is pending or running. */
  readonly busy: (uuid: string) => boolean
  readonly stop: (uuid: string, requestedBy: string) => void
  readonly start: (uuid: string) => void
  /** Id of the host's current boot. In each boot, counters begin at 0. */
  readonly bootId: string
}

/**
 * Counts guests' traffic and enforces quota and expiry. The host's counters continue while no agent runs. The increase
 * of the counters since the last reading is stored in one transaction with their values. A kill of the agent therefore
 * loses no traffic, and a power loss only the traffic since the last reading.
 */
export class TrafficKeeper implements PolicyKeeper {
  readonly #counts: TrafficStore
  readonly #time: TimeFormat
  readonly #stopped = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  readonly #counting = new SingleFlight<string[]>()
  /** Number of timer ticks since the counters were last read. */
  #ticks = 0
  readonly #judging = new KeyedSingleFlight<string>()
  /** Guests that ran at the last reading. Before the first reading: guests that ran when the previous agent ended. */
  #on: ReadonlySet<string>

  constructor(private readonly parts: KeeperParts) {
    this.#counts = new TrafficStore(parts.context.store.changes)
    this.#on = onOf(parts.context.store.list())
    this.#time = createTimeFormat(parts.context.config.time_zone)
  }

  start(intervalMs: number): void {
    this.#timer = setInterval(() => void this.#tick(), intervalMs)
  }

  /** Stops the timer, and counts the traffic one last time. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#counting.settled()
    await this.#countAll()
  }

  /**
   * Counts traffic, and enforces quotas and expiries. Failures are only logged, because the next call follows soon. The
   * counting does not wait for guests that are busy for a long time.
   */
  look(): Promise<void> {
    return this.#look(() => this.#countAll())
  }

  /** Checks if guests have expired. Reads the traffic counters; if no guest has a quota, only at every third tick. */
  #tick(): Promise<void> {
    if (this.#ticks >= uncountedTicks || this.parts.context.store.list().some(hasQuota)) return this.look()
    this.#ticks++
    return this.#look(() => Promise.resolve(this.#countIn(undefined)))
  }

  async #look(count: () => Promise<string[]>): Promise<void> {
    await Promise.all((await this.#counting.run(count)).map((uuid) => this.#judgeOnce(uuid)))
  }

  /**
   * Counts traffic now. Does not share a count in progress, because that count may have read older counters. The next
   * `look` enforces the quotas.
   */
  async count(): Promise<void> {
    await this.#counting.settled()
    await this.#counting.run(() => this.#countAll())
  }

  readUse(record: GuestRecord): TrafficUse {
    const count = this.#countOf(record, this.#lookAt(undefined))
    const { rxBytes, txBytes, periodStart: start } = count
    const resetsAtMs = periodEndMs(start, this.#resetDayOf(record), this.#time)
    const offset = utcOffsetMinutes(resetsAtMs, this.#time)
    return { rxBytes, txBytes, periodStart: start, resetsAtMs, utcOffsetMinutes: offset }
  }

  /** Sets a guest's count to 0 in the present period, even if a wrong clock had already started a later period. */
  resetUse(uuid: string): void {
    const { store } = this.parts.context
    store.changes.transaction(() => {
      const record = store.get(uuid)
      const look = this.#lookAt(undefined)
      const periodStart = look.of(uuid).startOf(this.#resetDayOf(record))
      this.#counts.put(uuid, { ...this.#countOf(record, look), ...noBytes, periodStart, periodLeft: '' })
    })
  }

  judge(uuid: string): Promise<void> {
    const { context } = this.parts
    return context.store.mutex.run(uuid, async () => {
      const { store } = context
      const before = store.find(uuid)
      if (!before || !isJudged(before)) return
      const look = this.#lookAt(undefined)
      store.changes.transaction(() => {
        const count = this.#countOf(before, look)
        this.#counts.put(uuid, count)
        store.update(uuid, { policy: this.#policyOf(before, count) })
        if (isLiftDue(before, this.parts.clock)) this.#lift(store.get(uuid))
      })
      const record = store.get(uuid)
      // A suspended guest is disconnected before its stop, because the stop takes time. After a failure, the agent
      // tries again when it next compares the host with the journal.
      const wanted = networkOf(record, context.config)
      await this.#guard(`update the network of guest ${uuid}`, () => context.network.attach(wanted, ['rules', 'rates']))
      await this.#guard(`stop guest ${uuid}`, () => this.#stopSuspended(record))
      await this.#guard(`start guest ${uuid}`, () => this.#startAgain(before, record))
    })
  }

  /** Counts the traffic of all guests. @returns uuids of the guests for which `judge` must be called */
  async #countAll(): Promise<string[]> {
    this.#ticks = 0
    return this.#countIn(await this.#readCounters())
  }

  #countIn(counters: ReadonlyMap<string, ByteCounters> | undefined): string[] {
    const { store, log } = this.parts.context
    try {
      const look = this.#lookAt(counters)
      return store.changes.transaction(() => this.#count(look))
    } catch (err) {
      log.error({ err }, 'could not count the traffic of guests')
      return []
    }
  }

  #judgeOnce(uuid: string): Promise<void> {
    return this.#judging.run(uuid, () =>
      this.#guard(`check the expiry and quota of guest ${uuid}`, () => this.judge(uuid)),
    )
  }

  async #guard(action: string, work: () => Promise<void> | void): Promise<void> {
    try {
      await work()
    } catch (err) {
      this.parts.context.log.error({ err }, `could not ${action}`)
    }
  }

  /** Returns undefined if counters cannot be read. Does not throw, because expiry and periods need no counters. */
  async #readCounters(): Promise<ReadonlyMap<string, ByteCounters> | undefined> {
    const { network, log } = this.parts.context
    try {
      return await network.readCounters()
    } catch (error) {
      log.error({ reason: describeError(error) }, 'could not read the traffic counters')
      return undefined
    }
  }

  /** @returns uuids of guests that must be stopped, or whose policy or suspension changes */
  #count(look: Look): string[] {
    const counts = this.#counts.list()
    const records = this.parts.context.store.list()
    const [before, now] = [this.#on, onOf(records)]
    if (look.counted) this.#on = now
    return records.flatMap((record) => {
      const { uuid } = record
      const have = counts.get(uuid)
      const off = !before.has(uuid) && !now.has(uuid)
      const count = planCount(have, this.#resetDayOf(record), { ...look.of(uuid), off })
      if (!have || !sameCount(have, count)) this.#counts.put(uuid, count)
      const { expired, overQuota } = this.#policyOf(record, count)
      const same = expired === record.policy.expired && overQuota === record.policy.overQuota
      const isSettled = same && !this.#mustStop(record) && !isLiftDue(record, this.parts.clock)
      return isSettled || !isJudged(record) ? [] : [uuid]
    })
  }

  #countOf(record: GuestRecord, look: Look): TrafficCount {
    return planCount(this.#counts.find(record.uuid), this.#resetDayOf(record), look.of(record.uuid))
  }

  #resetDayOf({ traffic }: GuestRecord): number {
    return traffic.resetDay || this.parts.context.config.traffic.reset_day
  }

  /** Reads the clock once, so that all guests get the same periods. Computes the period of each reset day only once. */
  #lookAt(counters: ReadonlyMap<string, ByteCounters> | undefined): Look {
    const nowMs = this.parts.context.now()
    const starts = new Map<number, string>()
    const startOf = (resetDay: number): string => {
      const start = starts.get(resetDay) ?? periodStart(nowMs, resetDay, this.#time)
      starts.set(resetDay, start)
      return start
    }
    const epoch = this.parts.bootId
    const counted = counters !== undefined
    return { nowMs, counted, of: (uuid) => ({ startOf, epoch, counters: counters?.get(uuid) }) }
  }

  /** Ends a guest's suspension, in the caller's transaction. */
  #lift(record: GuestRecord): void {
    const { store, log } = this.parts.context
    store.update(record.uuid, planUnsuspend(record))
    log.info({ guest: record.uuid }, 'the suspension of a guest has ended')
  }

  /** Stops a guest that must not run. The guest stays stopped even after it is allowed to run again. */
  #stopSuspended(record: GuestRecord): void {
    if (!this.#mustStop(record)) return
    this.#stopped.set(record.uuid, performance.now())
    this.parts.context.log.info({ guest: record.uuid, reason: policyReasonOf(record) }, 'a guest was blocked')
    this.parts.stop(record.uuid, record.policy.abuse === undefined ? 'system' : securityUser)
  }

  /** Starts a guest that was stopped as expired because the clock was wrong. */
  #startAgain(before: GuestRecord, { uuid, policy, wanted }: GuestRecord): void {
    const wasWrong = before.policy.expired && !policy.expired && before.policy.stoppedForExpiryMs === before.expiresAtMs
    if (!wasWrong || wanted !== 'stopped' || policyReasonOf(this.parts.context.store.get(uuid)) !== '') return
    this.parts.context.log.warn(
      { guest: uuid },
      'starting a guest again: it was stopped as expired only because the clock was wrong',
    )
    this.parts.start(uuid)
  }

  #policyOf(record: GuestRecord, count: TrafficCount): GuestPolicy {
    return policyOf(record, isUsedUp(record.traffic, count), this.parts.clock)
  }

  /** True if a guest runs although it is not allowed to. False if it is busy, or if its stop was requested recently. */
  #mustStop(record: GuestRecord): boolean {
    const { uuid, status, wanted } = record
    const runs = wanted === 'running' || status === 'running'
    const isAllowed = isAllowedToRun(record)
    if (!runs || isAllowed) this.#stopped.delete(uuid)
    if (!runs || isAllowed || this.parts.busy(uuid)) return false
    return performance.now() - (this.#stopped.get(uuid) ?? -Infinity) >= stopAgainMs
  }
}

/** Time and counters that are read once and used for all guests. `counted`: true if the counters could be read. */
interface Look {
  readonly nowMs: number
  readonly counted: boolean
  readonly of: (uuid: string) => CountLook
}

/** Returns uuids of guests that are not stopped. `planCount` must ignore received bytes counted for stopped guests. */
function onOf(records: readonly GuestRecord[]): ReadonlySet<string> {
  return new Set(records.filter(({ status }) => status !== 'stopped').map(({ uuid }) => uuid))
}

/** True if the guest's quota and expiry are enforced. False while the guest is broken or being deleted. */
function isJudged({ status }: GuestRecord): boolean {
  return status !== 'deleting' && status !== 'error'
}

function hasQuota({ traffic }: GuestRecord): boolean {
  const { mode, monthlyGb, inGb, outGb } = traffic
  return (mode === 'total' ? monthlyGb : inGb + outGb) > 0
}

function sameCount(a: TrafficCount, b: TrafficCount): boolean {
  return (Object.keys(a) as (keyof TrafficCount)[]).every((key) => a[key] === b[key])
}
