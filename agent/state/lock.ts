import Database from 'better-sqlite3'
import { truncateSync } from 'node:fs'
import { BerthError } from '../../shared/errors.js'

/**
 * Locks the state directory for one agent, by SQLite's exclusive lock. When the process ends, even by a kill, the
 * kernel releases the lock.
 * @returns a function that releases the lock
 * @throws {BerthError} `already_running`
 */
export function lockState(path: string): () => void {
  const db = new Database(path, { timeout: 0 })
  try {
    db.pragma('locking_mode = EXCLUSIVE')
    db.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    db.close()
    if (isTorn(cause)) {
      truncateSync(path) // the file serves only as a lock and needs no content
      return lockState(path)
    }
    throw new BerthError(
      'conflict',
      'already_running',
      `another berth-agent is already running with this state directory: it holds the lock ${path}`,
      { cause },
    )
  }
  return () => void db.close()
}

/** True if SQLite reports that the file is not a database, for example after a power loss. */
function isTorn(error: unknown): boolean {
  return error instanceof Database.SqliteError && ['SQLITE_NOTADB', 'SQLITE_CORRUPT'].includes(error.code)
}
