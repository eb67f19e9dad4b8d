import type { Statement } from 'better-sqlite3'
import { describeError, notFound } from '../../shared/errors.js'
import type { Changes } from '../state/changes.js'
import { RemovedOperations, type SubmittedOperation } from './removed.js'
import type { OperationRecord, OperationStatus, Subject, SubjectRef } from './types.js'

interface OperationRow {
  id: string
  action: string
  subject_kind: string
  subject_id: string
  subject_name: string
  subject_number: number
  request_hash: string
  input: string
  status: OperationStatus
  step: number
  step_name: string
  undoing: number
  progress: number
  stage: string
  error_code: string
  error: string
  requested_by: string
  created_at_ms: number
  started_at_ms: number
  finished_at_ms: number
  revision: number
  downtime_ms: number
  moved: 0 | 1
}

type OpenRow = Pick<OperationRow, 'id' | 'action' | 'subject_kind' | 'subject_id' | 'status'>

export interface OperationInsert {
  id: string
  action: string
  subject: Subject
  requestHash: string
  /** Input of the operation, as plain JSON. */
  input: unknown
  requestedBy: string
  createdAtMs: number
}

/** A stored operation: its record, its input, and the step that it has reached. */
export interface JournaledOperation extends SubmittedOperation {
  /** Input of the operation; `{}` if it cannot be read. */
  input: unknown
  /** Reason why the input cannot be read. If it is set, no step can run, and the operation can only be ended. */
  unreadable?: string
  /** Index of the step that last began to run or to be undone. */
  step: number
  stepName: string
  undoing: boolean
}

export interface StepWrite {
  step: number
  stepName: string
  progress: number
  stage: string
  nowMs: number
}

export interface OperationError {
  code: string
  message: string
}

export interface OpenOperation {
  id: string
  action: string
  subject: SubjectRef
  status: 'pending' | 'running'
}

const none: OperationError = { code: '', message: '' }

/** Stores operations in the journal. A write is on the disk when its method returns. Watchers are notified. */
export class OperationStore {
  readonly removed: RemovedOperations
  readonly #byId: Statement<[string], OperationRow>
  readonly #since: Statement<[number], OperationRow>
  readonly #open: Statement<[], OpenRow>
  readonly #insert: Statement<[Record<string, unknown>]>
  readonly #step: Statement<[Record<string, unknown>]>
  readonly #progress: Statement<[Record<string, unknown>]>
  readonly #downtime: Statement<[Record<string, unknown>]>
  readonly #end: Statement<[Record<string, unknown>]>
  readonly #delete: Statement<[string]>
  readonly #ended: Statement<[number, number], { id: string }>
  readonly #crowded: Statement<[number], { id: string }>
  readonly #countEnded: Statement<[], number>

  constructor(readonly changes: Changes) {
    const { db } = changes
    this.removed = new RemovedOperations(db)
    this.#byId = db.prepare('SELECT * FROM operations WHERE id = ?')
    // The rowid shows the order of submission. Times are not reliable, because clocks can be set back.
    this.#since = db.prepare('SELECT * FROM operations WHERE revision > ? ORDER BY rowid DESC')
    this.#open = db.prepare(
      `SELECT id, action, subject_kind, subject_id, status FROM operations WHERE status IN ('pending', 'running')
       ORDER BY status = 'pending', rowid`,
    )
    this.#insert = db.prepare(
      `INSERT INTO operations (id, action, subject_kind, subject_id, subject_name, subject_number,
         request_hash, input, status, requested_by, created_at_ms, revision)
       VALUES (@id, @action, @subjectKind, @subjectId, @subjectName, @subjectNumber,
         @requestHash, @input, 'pending', @requestedBy, @createdAtMs, @revision)`,
    )
    this.#step = db.prepare(
      `UPDATE operations SET status = 'running', step = @step, step_name = @stepName, undoing = @undoing,
         progress = @progress, stage = @stage, error_code = @code, error = @message,
         started_at_ms = iif(started_at_ms = 0, @nowMs, started_at_ms), revision = @revision
       WHERE id = @id`,
    )
    this.#progress = db.prepare(
      'UPDATE operations SET progress = @progress, stage = @stage, revision = @revision WHERE id = @id',
    )
    this.#downtime = db.prepare('UPDATE operations SET downtime_ms = @downtimeMs, revision = @revision WHERE id = @id')
    this.#end = db.prepare(
      `UPDATE operations SET status = @status, progress = iif(@status = 'done', 100, progress), stage = '',
         error_code = @code, error = @message, finished_at_ms = @nowMs, revision = @revision,
         started_at_ms = iif(started_at_ms = 0 AND @status <> 'canceled', @nowMs, started_at_ms)
       WHERE id = @id`,
    )
    this.#delete = db.prepare('DELETE FROM operations WHERE id = ?')
    this.#ended = db.prepare(
      `SELECT id FROM operations WHERE finished_at_ms > 0 AND finished_at_ms < ?
       ORDER BY finished_at_ms LIMIT ?`,
    )
    this.#crowded = db.prepare(
      `SELECT id FROM (
         SELECT id, finished_at_ms AS ended,
           row_number() OVER (PARTITION BY subject_kind, subject_id ORDER BY finished_at_ms DESC) AS depth
         FROM operations WHERE finished_at_ms > 0)
       ORDER BY depth DESC, ended LIMIT ?`,
    )
    this.#countEnded = db.prepare<[], number>('SELECT count(*) FROM operations WHERE finished_at_ms > 0').pluck()
  }

  find(id: string): OperationRecord | undefined {
    const row = this.#byId.get(id)
    return row && toRecord(row)
  }

  /** @throws {BerthError} `not_found` */
  get(id: string): OperationRecord {
    const record = this.find(id)
    if (!record) throw notFound('task')
    return record
  }

  findJournaled(id: string): JournaledOperation | undefined {
    const row = this.#byId.get(id)
    return (
      row && {
        record: toRecord(row),
        requestHash: row.request_hash,
        ...parseInput(row.input),
        step: row.step,
        stepName: row.step_name,
        undoing: row.undoing === 1,
      }
    )
  }

  /** Finds an operation, even if it was removed, until `RemovedOperations` forgets it. */
  findSubmitted(id: string, nowMs: number): SubmittedOperation | undefined {
    return this.findJournaled(id) ?? this.removed.find(id, nowMs)
  }

  /** Returns the operations that changed after a revision, newest first. */
  list(sinceRevision = -1): OperationRecord[] {
    return this.#since.all(sinceRevision).map(toRecord)
  }

  /** Returns running and then pending operations, each group in order of submission. */
  listOpen(): OpenOperation[] {
    return this.#open.all().map((row) => ({
      id: row.id,
      action: row.action,
      subject: { kind: row.subject_kind, id: row.subject_id },
      status: row.status as OpenOperation['status'],
    }))
  }

  insert(operation: OperationInsert): OperationRecord {
    const { input, subject, ...rest } = operation
    this.#write(operation.id, this.#insert, {
      ...rest,
      ...subjectColumns(subject),
      input: JSON.stringify(input ?? null),
    })
    return this.get(operation.id)
  }

  /** Records the beginning of a step. @param error error of the previous attempt, if the step is retried */
  beginStep(id: string, step: StepWrite, error: OperationError = none): void {
    this.#write(id, this.#step, { ...step, ...error, undoing: 0 })
  }

  beginUndo(id: string, step: StepWrite, error: OperationError): void {
    this.#write(id, this.#step, { ...step, ...error, undoing: 1 })
  }

  report(id: string, progress: number, stage: string): void {
    this.#write(id, this.#progress, { progress, stage })
  }

  /** Records for how long a guest was paused during its live move. */
  noteDowntime(id: string, downtimeMs: number): void {
    this.#write(id, this.#downtime, { downtimeMs })
  }

  end(id: string, status: 'done' | 'failed' | 'canceled', nowMs: number, error = none): void {
    this.#write(id, this.#end, { status, nowMs, ...error })
  }

  /** Removes the operation. `RemovedOperations` remembers its id. */
  remove(id: string, nowMs: number): void {
    this.changes.transaction(() => {
      const row = this.#byId.get(id)
      if (!row) return
      this.removed.note({ record: toRecord(row), requestHash: row.request_hash }, nowMs)
      this.#delete.run(id)
      this.changes.record('operation', id, true)
    })
  }

  /**
   * Removes at most `limit` operations that ended before `endedBeforeMs`. If `endedBeforeMs` is Infinity, the subjects
   * with the most operations lose their oldest operations first.
   * @returns number of removed operations
   */
  prune({ endedBeforeMs, limit, nowMs }: { endedBeforeMs: number; limit: number; nowMs: number }): number {
    return this.changes.transaction(() => {
      const rows = endedBeforeMs === Infinity ? this.#crowded.all(limit) : this.#ended.all(endedBeforeMs, limit)
      for (const { id } of rows) this.remove(id, nowMs)
      return rows.length
    })
  }

  countEnded(): number {
    return this.#countEnded.get() ?? 0
  }

  #write(id: string, statement: Statement<[Record<string, unknown>]>, values: object): void {
    this.changes.transaction(() => {
      statement.run({ ...values, id, revision: this.changes.record('operation', id) })
    })
  }
}

function subjectColumns({ kind, id, name, number }: Subject): Record<string, unknown> {
  return { subjectKind: kind, subjectId: id, subjectName: name, subjectNumber: number }
}

function parseInput(text: string): Pick<JournaledOperation, 'input' | 'unreadable'> {
  try {
    return { input: JSON.parse(text) as unknown }
  } catch (error) {
    return { input: {}, unreadable: describeError(error) }
  }
}

function toRecord(row: OperationRow): OperationRecord {
  return {
    id: row.id,
    action: row.action,
    subject: {
      kind: row.subject_kind,
      id: row.subject_id,
      name: row.subject_name,
      number: row.subject_number,
    },
    status: row.status,
    progress: row.progress,
    stage: row.stage,
    errorCode: row.error_code,
    error: row.error,
    createdAtMs: row.created_at_ms,
    startedAtMs: row.started_at_ms,
    finishedAtMs: row.finished_at_ms,
    requestedBy: row.requested_by,
    revision: row.revision,
    downtimeMs: row.downtime_ms,
    moved: row.moved === 1,
  }
}
