import type { OperationStore } from './operation-store.js'
import type { OperationRecord, Subject } from './types.js'

/** An ended operation as it moves to another host with its guest. It lacks the input, which can contain secrets. */
export interface MovedOperation extends Pick<
  OperationRecord,
  'id' | 'action' | 'error' | 'errorCode' | 'progress' | 'downtimeMs' | 'requestedBy'
> {
  readonly subjectKind: string
  readonly status: 'done' | 'failed' | 'canceled'
  readonly requestHash: string
  readonly createdAtMs: number
  readonly startedAtMs: number
  readonly finishedAtMs: number
}

const columns = `id, action, subject_kind AS subjectKind, status, progress, error_code AS errorCode, error,
  requested_by AS requestedBy, request_hash AS requestHash, created_at_ms AS createdAtMs,
  started_at_ms AS startedAtMs, finished_at_ms AS finishedAtMs, downtime_ms AS downtimeMs`

/** Operations on these subjects move with a guest. The id of the subject is the uuid of the guest. */
export const movedSubjects = ['guest', 'backup'] as const
const ofGuest = `subject_id = ? AND subject_kind IN (${movedSubjects.map((kind) => `'${kind}'`).join(', ')})`

/** Reads, adds and removes the ended operations of guests that move. Writes join the caller's transaction. */
export class MovedOperations {
  constructor(private readonly store: OperationStore) {}

  /** Returns the newest ended operations that changed after a revision. */
  list(guestUuid: string, sinceRevision: number, limit: number): MovedOperation[] {
    return this.store.changes.db
      .prepare<[number, string, number], MovedOperation>(
        `SELECT ${columns} FROM operations WHERE revision > ? AND ${ofGuest} AND finished_at_ms > 0
         ORDER BY rowid DESC LIMIT ?`,
      )
      .all(sinceRevision, guestUuid, limit)
  }

  /** Adds an operation of a guest that has arrived. Ids that belong to other operations of this host are left out. */
  adopt(guest: Subject, { subjectKind, ...operation }: MovedOperation): void {
    if (this.#isTaken(operation.id, guest.id)) return
    const { changes } = this.store
    const revision = changes.record('operation', operation.id)
    const values = { ...operation, subjectKind, uuid: guest.id, name: guest.name, number: guest.number, revision }
    changes.db
      .prepare(
        `INSERT INTO operations (id, action, subject_kind, subject_id, subject_name, subject_number, request_hash,
           input, status, progress, error_code, error, requested_by, created_at_ms, started_at_ms, finished_at_ms,
           downtime_ms, revision, moved)
         VALUES (@id, @action, @subjectKind, @uuid, @name, @number, @requestHash, 'null', @status, @progress,
           @errorCode, @error, @requestedBy, @createdAtMs, @startedAtMs, @finishedAtMs, @downtimeMs, @revision, 1)`,
      )
      .run(values)
  }

  /**
   * Removes the ended operations of a guest that has left. Operations that have changed after `revision` stay.
   * @param sent.except id of the operation that moved the guest
   */
  removeOf(guestUuid: string, sent: { readonly revision: number; readonly except: string }, nowMs: number): void {
    const ids = this.store.changes.db
      .prepare<[string, string, number], string>(
        `SELECT id FROM operations WHERE ${ofGuest} AND id <> ? AND finished_at_ms > 0 AND revision <= ?
         ORDER BY rowid`,
      )
      .pluck()
      .all(guestUuid, sent.except, sent.revision)
    for (const id of ids) this.store.remove(id, nowMs)
  }

  /** True if this host has an operation with the id, or has removed such an operation of another subject. */
  #isTaken(id: string, guestUuid: string): boolean {
    const removed = this.store.changes.db
      .prepare(`SELECT 1 FROM removed_operations WHERE id = ? AND json_extract(record, '$.subject.id') <> ?`)
      .get(id, guestUuid)
    return this.store.find(id) !== undefined || removed !== undefined
  }
}
