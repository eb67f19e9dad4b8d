import Database from 'better-sqlite3'
import { chmodSync, closeSync, existsSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { migrations, readableSince } from './migrations.js'

/*
 * The journal is the agent's SQLite database. It has one synchronous connection, so that a transaction is a plain
 * function during which nothing else runs. With WAL and synchronous=FULL, committed data survives a power loss
 * (sqlite.org/pragma.html#pragma_synchronous). The default of better-sqlite3 in WAL mode is only NORMAL.
 */

export type { Database } from 'better-sqlite3'

/**
 * Opens the journal, and creates or migrates it.
 * @param options.version version to which an older journal is migrated; for tests of migrations
 * @throws {BerthError} `journal_damaged`; another error if the journal needs a newer version of this program
 */
export function openDatabase(path: string, { version = migrations.length } = {}): Database.Database {
  if (path === ':memory:') return prepare(new Database(path), version)
  keepPrivate(path)
  const db = new Database(path)
  try {
    checkPages(db)
    return prepare(db, version)
  } catch (cause) {
    db.close()
    if (!isDamage(cause)) throw cause
    throw new BerthError('internal', 'journal_damaged', damagedJournal(path, 'is damaged'), { cause })
  }
}

/**
 * Refuses a missing or empty journal if the secret of an earlier journal exists. With an empty journal, the agent would
 * know none of its guests.
 * @throws {BerthError} `journal_missing`
 */
export function checkJournalPresent(path: string, secretPath: string): void {
  if (!existsSync(secretPath) || hasContent(path)) return
  throw new BerthError('internal', 'journal_missing', damagedJournal(path, 'is missing or empty'))
}

/** Returns an error message that states what is wrong with the journal, and how to recover. */
function damagedJournal(path: string, what: string): string {
  const directory = dirname(path)
  return (
    `${path} ${what}: restore ${directory} from a backup, or start without the guests recorded there: ` +
    `mv '${directory}' '${directory}.damaged', then let the host join again`
  )
}

function hasContent(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0
}

/**
 * Reads all pages, because an error that is found only later would interrupt an operation.
 * @throws if a page is damaged
 */
function checkPages(db: Database.Database): void {
  const found = db.pragma('quick_check(1)', { simple: true }) as string
  if (found !== 'ok') throw new DamagedPages(found)
}

class DamagedPages extends Error {}

function isDamage(cause: unknown): boolean {
  if (cause instanceof DamagedPages) return true
  return cause instanceof Database.SqliteError && /^SQLITE_(NOTADB|CORRUPT)/.test(cause.code)
}

function prepare(db: Database.Database, version: number): Database.Database {
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.pragma('foreign_keys = ON')
  db.pragma('busy_timeout = 5000')
  migrate(db, version)
  return db
}

/**
 * Creates the file with mode 0600, so that only root can read data about guests. SQLite gives the same mode to the
 * files that it creates next to this file.
 */
function keepPrivate(path: string): void {
  closeSync(openSync(path, 'a', 0o600))
  chmodSync(path, 0o600)
}

function migrate(db: Database.Database, wanted: number): void {
  const version = db.pragma('user_version', { simple: true }) as number
  if (version > migrations.length && readReadableSince(db, version) > migrations.length)
    throw new Error(
      `the database journal.db has version ${version}, but this berth-agent supports only versions up to ${migrations.length}: install a newer berth-agent`,
    )
  for (const [index, sql] of migrations.slice(version, wanted).entries()) {
    db.transaction(() => {
      db.exec(sql)
      db.pragma(`user_version = ${version + index + 1}`)
    })()
  }
  if (version <= migrations.length && wanted === migrations.length) writeReadableSince(db)
}

/** Stores the oldest journal version whose agents can use this journal. The next migration invalidates this value. */
function writeReadableSince(db: Database.Database): void {
  const note = `${migrations.length} ${readableSince}`
  if (readNote(db) !== note)
    db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES ('readable_since', ?)").run(note)
}

/** Returns the oldest journal version whose agents can use this journal. Default: the version of this journal. */
function readReadableSince(db: Database.Database, version: number): number {
  const [about, since] = (readNote(db) ?? '').split(' ').map(Number)
  return about === version && since !== undefined && since > 0 ? since : version
}

function readNote(db: Database.Database): string | undefined {
  return db.prepare<[], { value: string }>("SELECT value FROM meta WHERE key = 'readable_since'").get()?.value
}
