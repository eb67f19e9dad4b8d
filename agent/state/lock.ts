import Database from 'better-sqlite3'
import { BerthError } from '../../shared/errors.js'

/**
 * One agent per state directory. SQLite's exclusive lock is the kernel's: it ends with the process, however
 * that ends.
 * @returns how to let go
 * @throws {BerthError} `already_running`
 */
export function lockState(path: string): () => void {
  const db = new Database(path, { timeout: 0 })
  try {
    db.pragma('locking_mode = EXCLUSIVE')
    db.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    db.close()
    throw new BerthError('conflict', 'already_running', `another berth-agent holds ${path}`, { cause })
  }
  return () => void db.close()
}
