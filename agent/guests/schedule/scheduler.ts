import { createHash, randomUUID } from 'node:crypto'
import type { OperationEngine } from '../../operations/engine.js'
import type { GuestContext } from '../context.js'
import { guestSubject } from '../operations/guest-order.js'
import { scheduledSnapshotOrder } from '../operations/snapshot-scheduled.js'
import { policyReasonOf } from '../policy.js'
import type { GuestRecord } from '../record.js'
import { catchUpWithinMs, planLook, type Look } from './plan-schedule.js'

/** Scheduled snapshots that are under way at once, over all guests: what people order does not wait behind them. */
const atOnce = 2

export interface SchedulerParts {
  readonly context: Pick<GuestContext, 'store' | 'time' | 'log' | 'now'>
  readonly engine: Pick<OperationEngine, 'submit' | 'wait' | 'busy'>
}

/** Orders the snapshots that guests' schedules say, a few at a time. */
export class SnapshotScheduler {
  readonly #running = new Set<string>()
  /** Guests that were due at the last look, what is longest overdue first. */
  #due: string[] = []
  #timer: NodeJS.Timeout | undefined
  #isFirst = true
  #closed = false

  constructor(private readonly parts: SchedulerParts) {}

  /** Looks at once and then at every interval. */
  start(intervalMs: number): void {
    this.look()
    this.#timer = setInterval(() => this.look(), intervalMs)
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }

  /** Orders what is due. Failures are logged; the next look is soon. */
  look(): void {
    try {
      this.#due = this.#findDue()
      this.#isFirst = false
    } catch (err) {
      this.parts.context.log.error({ err }, 'snapshot schedules')
    }
    this.#orderDue()
  }

  /** Runs that move are noted. */
  #findDue(): string[] {
    const { store } = this.parts.context
    const looks = store
      .list()
      .filter(({ snapshotSchedule }) => snapshotSchedule.enabled)
      .map((record) => ({ record, look: this.#planLook(record) }))
    const moved = looks.flatMap(({ record, look }) =>
      look.kind === 'move' ? [{ record, nextRunMs: look.nextRunMs }] : [],
    )
    store.changes.transaction(() => {
      for (const { record, nextRunMs } of moved)
        store.update(record.uuid, { snapshotSchedule: { ...record.snapshotSchedule, nextRunMs } })
    })
    return looks
      .flatMap(({ record, look }) => (look.kind === 'run' ? [record] : []))
      .sort((a, b) => a.snapshotSchedule.nextRunMs - b.snapshotSchedule.nextRunMs)
      .map(({ uuid }) => uuid)
  }

  #planLook(record: GuestRecord): Look {
    const { now, time } = this.parts.context
    const { uuid, snapshotSchedule: schedule } = record
    const at = { nowMs: now(), isHeld: isHeld(record), isFirst: this.#isFirst }
    return planLook(schedule, { ...at, offsetMs: () => offsetOf(uuid) }, time)
  }

  #orderDue(): void {
    while (!this.#closed && this.#running.size < atOnce) {
      const uuid = this.#due.shift()
      if (uuid === undefined) return
      try {
        this.#order(uuid)
      } catch (err) {
        this.parts.context.log.error({ err, guest: uuid }, 'order a scheduled snapshot')
      }
    }
  }

  /** One that something is done with waits for a later look. */
  #order(uuid: string): void {
    const { context, engine } = this.parts
    const record = context.store.find(uuid)
    if (!record?.snapshotSchedule.enabled || engine.busy(guestSubject(uuid))) return
    const look = this.#planLook(record)
    if (look.kind !== 'run') return
    const id = randomUUID()
    engine.submit(scheduledSnapshotOrder(context, record, { id, nextRunMs: look.nextRunMs }))
    this.#running.add(id)
    engine.wait(id).then(
      () => this.#ended(id),
      () => this.#ended(id), // it cannot be told how: the agent ends
    )
  }

  #ended(id: string): void {
    this.#running.delete(id)
    this.#orderDue()
  }
}

/** What blocks a guest stops it too: snapshots would be alike, and push out those from before. */
function isHeld(record: GuestRecord): boolean {
  return ['error', 'deleting', 'creating'].includes(record.status) || policyReasonOf(record) !== ''
}

/** The same for a guest at all times, spread evenly over all of them. */
function offsetOf(uuid: string): number {
  return createHash('sha256').update(uuid).digest().readUInt32BE(0) % catchUpWithinMs
}
