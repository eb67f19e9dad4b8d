import type { Database } from '../../state/database.js'

/*
 * Ids of applied changes of settings. Each id is stored in the same transaction as its change. Therefore a client that
 * got no answer can repeat its request without making the change twice.
 */

/** True if the change with this id was applied. @param operationId empty if the change has no id */
export function isDone(db: Database, operationId: string): boolean {
  if (operationId === '') return false
  return db.prepare('SELECT 1 FROM done_settings WHERE operation_id = ?').get(operationId) !== undefined
}

/** Stores the id in the caller's transaction, which also contains the change. */
export function noteDone(db: Database, operationId: string, { uuid, nowMs }: { uuid: string; nowMs: number }): void {
  if (operationId === '') return
  const columns = '(operation_id, guest_uuid, done_at_ms)'
  db.prepare(`INSERT INTO done_settings ${columns} VALUES (?, ?, ?)`).run(operationId, uuid, nowMs)
}

export function forgetDone(db: Database, operationId: string): void {
  db.prepare('DELETE FROM done_settings WHERE operation_id = ?').run(operationId)
}

/**
 * Removes the ids of changes before `beforeMs`. If more than `keep` ids are left, removes the oldest ones, too.
 * @returns number of removed ids
 */
export function pruneDone(db: Database, beforeMs: number, keep = Infinity): number {
  const aged = db.prepare('DELETE FROM done_settings WHERE done_at_ms < ?').run(beforeMs).changes
  if (!Number.isFinite(keep)) return aged
  const oldest = 'SELECT operation_id FROM done_settings ORDER BY done_at_ms DESC LIMIT -1 OFFSET ?'
  return aged + db.prepare(`DELETE FROM done_settings WHERE operation_id IN (${oldest})`).run(keep).changes
}
