import { createHash, randomUUID } from 'node:crypto'
import { createTimeFormat, type TimeFormat } from '../../../shared/time.js'
import type { OperationEngine } from '../../operations/engine.js'
import type { Submission } from '../../operations/submission.js'
import type { SubjectRef } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import { policyReasonOf } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import type { SnapshotSchedule } from '../record/snapshots-and-backups.js'
import { catchUpWithinMs, planLook, type Look } from './plan-schedule.js'

/** Maximum number of parallel runs of one kind on the host, so that users' requests do not wait long behind runs. */
const atOnce = 2

/** A kind of scheduled work: snapshots or backups. */
export interface ScheduledKind {
  /** Name of the kind for the log. */
  readonly what: string
  readonly scheduleOf: (record: GuestRecord) => Readonly<SnapshotSchedule>
  /** Stores the time of the next run in the caller's transaction. */
  readonly move: (record: GuestRecord, nextRunMs: number) => void
  /** Subjects that the run needs, such as the guest. The run waits until none of them has an unfinished operation. */
  readonly subjectsOf: (record: GuestRecord) => readonly SubjectRef[]
  /** Creates the request for a run. @param run `nextRunMs`: time of the following run, stored with the request */
  readonly orderOf: (record: GuestRecord, run: { readonly id: string; readonly nextRunMs: number }) => Submission
}

export interface SchedulerParts {
  readonly kind: ScheduledKind
  readonly context: Pick<GuestContext, 'config' | 'store' | 'log' | 'now'>
  readonly engine: Pick<OperationEngine, 'submit' | 'wait' | 'busy'>
}

/** Submits the scheduled runs (snapshots or backups) of guests, a few at a time. */
export class ScheduledRuns {
  readonly #running = new Set<string>()
  /** Uuids of guests whose run was due at the last check, the longest overdue first. */
  #due: string[] = []
  #timer: NodeJS.Timeout | undefined
  #isFirst = true
  #closed = false

  readonly #time: TimeFormat

  constructor(private readonly parts: SchedulerParts) {
    this.#time = createTimeFormat(parts.context.config.time_zone)
  }

  /** Checks the schedules immediately and then at every interval. */
  start(intervalMs: number): void {
    this.look()
    this.#timer = setInterval(() => this.look(), intervalMs)
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }

  /** Submits scheduled runs that are due. Failures are logged, and the next check tries again. */
  look(): void {
    try {
      this.#due = this.#findDue()
      this.#isFirst = false
    } catch (err) {
      this.parts.context.log.error({ err }, `could not check the schedules of ${this.parts.kind.what}`)
    }
    this.#orderDue()
  }

  /** Finds guests whose run is due, and stores the new times of runs that were skipped or rescheduled. */
  #findDue(): string[] {
    const { kind, context } = this.parts
    const { store } = context
    const looks = store
      .list()
      .filter((record) => kind.scheduleOf(record).enabled)
      .map((record) => ({ record, look: this.#planLook(record) }))
    const moved = looks.flatMap(({ record, look }) =>
      look.kind === 'move' ? [{ record, nextRunMs: look.nextRunMs }] : [],
    )
    store.changes.transaction(() => {
      for (const { record, nextRunMs } of moved) kind.move(record, nextRunMs)
    })
    return looks
      .flatMap(({ record, look }) => (look.kind === 'run' ? [record] : []))
      .sort((a, b) => kind.scheduleOf(a).nextRunMs - kind.scheduleOf(b).nextRunMs)
      .map(({ uuid }) => uuid)
  }

  #planLook(record: GuestRecord): Look {
    const { kind, context } = this.parts
    const { now } = context
    const { uuid } = record
    const at = { nowMs: now(), isHeld: isHeld(record), isFirst: this.#isFirst }
    return planLook(kind.scheduleOf(record), { ...at, offsetMs: () => offsetOf(uuid) }, this.#time)
  }

  #orderDue(): void {
    while (!this.#closed && this.#running.size < atOnce) {
      const uuid = this.#due.shift()
      if (uuid === undefined) return
      try {
        this.#order(uuid)
      } catch (err) {
        this.parts.context.log.error(
          { err, guest: uuid },
          `could not start the scheduled ${this.parts.kind.what} of a guest`,
        )
      }
    }
  }

  #order(uuid: string): void {
    const { kind, context, engine } = this.parts
    const record = context.store.find(uuid)
    if (!record || !kind.scheduleOf(record).enabled) return
    if (kind.subjectsOf(record).some((subject) => engine.busy(subject))) return
    const look = this.#planLook(record)
    if (look.kind !== 'run') return
    const id = randomUUID()
    engine.submit(kind.orderOf(record, { id, nextRunMs: look.nextRunMs }))
    this.#running.add(id)
    engine.wait(id).then(
      () => this.#ended(id),
      () => this.#ended(id), // `wait` rejects when the agent shuts down
    )
  }

  #ended(id: string): void {
    this.#running.delete(id)
    this.#orderDue()
  }
}

/** True if runs are skipped. Snapshots of a suspended guest, for example, would all be equal and replace older ones. */
function isHeld(record: GuestRecord): boolean {
  return (
    ['error', 'deleting', 'creating'].includes(record.status) ||
    record.deletion !== null ||
    policyReasonOf(record) !== ''
  )
}

/** Returns a guest's constant delay in ms for runs that make up for missed runs. Delays differ between guests. */
function offsetOf(uuid: string): number {
  return createHash('sha256').update(uuid).digest().readUInt32BE(0) % catchUpWithinMs
}
