import type { Statement } from 'better-sqlite3'
import type { Database } from '../state/database.js'
import type { OperationRecord } from './types.js'

/** The data that is needed to recognize a repeated submission and to answer it. */
export interface SubmittedOperation {
  record: OperationRecord
  requestHash: string
}

type RemovedRecord = Omit<OperationRecord, 'downtimeMs' | 'moved'>

/** Remembers removed operations. A caller that got no answer can repeat its request, which must then not run again. */
export class RemovedOperations {
  readonly #find: Statement<[string], { request_hash: string; record: string }>
  readonly #note: Statement<[string, string, string, number]>
  readonly #renew: Statement<[number, string]>
  readonly #forget: Statement<[number]>
  readonly #forgetOldest: Statement<[number]>

  constructor(db: Database) {
    this.#find = db.prepare('SELECT request_hash, record FROM removed_operations WHERE id = ?')
    // An operation can be removed twice, if its guest moves away, returns and moves away again.
    this.#note = db.prepare(
      'INSERT OR REPLACE INTO removed_operations (id, request_hash, record, removed_at_ms) VALUES (?, ?, ?, ?)',
    )
    this.#renew = db.prepare('UPDATE removed_operations SET removed_at_ms = ? WHERE id = ?')
    this.#forget = db.prepare('DELETE FROM removed_operations WHERE removed_at_ms < ?')
    this.#forgetOldest = db.prepare(
      `DELETE FROM removed_operations WHERE id IN
         (SELECT id FROM removed_operations ORDER BY removed_at_ms DESC LIMIT -1 OFFSET ?)`,
    )
  }

  /** Finds a removed operation and sets its removal time to now, so that further repetitions also find it. */
  find(id: string, nowMs: number): SubmittedOperation | undefined {
    const row = this.#find.get(id)
    if (row) this.#renew.run(nowMs, id)
    // Records of operations that an older agent removed lack the newer fields.
    const record = row && { downtimeMs: 0, moved: false, ...(JSON.parse(row.record) as RemovedRecord) }
    return record && { record, requestHash: row.request_hash }
  }

  note({ record, requestHash }: SubmittedOperation, nowMs: number): void {
    this.#note.run(record.id, requestHash, JSON.stringify(record), nowMs)
  }

  /** Forgets operations that were removed before this time, and the oldest ones beyond `keep`. @returns their number */
  forget(removedBeforeMs: number, keep = Infinity): number {
    const aged = this.#forget.run(removedBeforeMs).changes
    return aged + (Number.isFinite(keep) ? this.#forgetOldest.run(keep).changes : 0)
  }
}
