import { randomUUID } from 'node:crypto'
import type { Statement } from 'better-sqlite3'
import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import type { Database } from './database.js'

type WatchEvent = NonNullable<WatchResponse['event']>

/** Kinds of entities whose changes watchers receive. Each event about such an entity contains a revision. */
export type ChangeKind = Extract<WatchEvent, { value: { revision: number } }>['$case']

export interface Change {
  readonly revision: number
  readonly kind: ChangeKind
  readonly key: string
  readonly removed: boolean
}

export interface ChangesOptions {
  /** Minimum number of removals that are remembered for watchers that resume. Default: 20,000. */
  keptRemovals?: number
  /** Called if a listener throws after the commit. Default: emits a process warning. */
  onListenerError?: (error: unknown) => void
}

/**
 * Numbers every visible change and notifies listeners after the commit. All writes to tables that watchers see must use
 * `transaction`. For each changed row, the writer calls `record` and stores the returned revision in the row.
 */
export class Changes {
  /** Identifies this journal. Revisions (change numbers) from journals with different epochs cannot be compared. */
  readonly epoch: string
  #revision: number
  #open = false
  #pending: Change[] = []
  /** Committed changes that `#tell` still has to pass to the listeners. */
  #told: Change[] = []
  #telling = false
  readonly #listeners = new Set<(change: Change) => void>()
  readonly #getMeta: Statement<[string], { value: string }>
  readonly #putMeta: Statement<[string, string]>
  readonly #insertRemoved: Statement<[number, string, string]>
  readonly #findRemoved: Statement<[string, string]>
  readonly #keptRemovals: number
  readonly #onListenerError: (error: unknown) => void
  #removals: number

  constructor(
    readonly db: Database,
    options: ChangesOptions = {},
  ) {
    this.#keptRemovals = options.keptRemovals ?? 20_000
    this.#onListenerError = options.onListenerError ?? ((error) => process.emitWarning(asError(error)))
    this.#getMeta = db.prepare('SELECT value FROM meta WHERE key = ?')
    this.#putMeta = db.prepare(
      'INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    )
    this.#insertRemoved = db.prepare('INSERT INTO removed (revision, kind, key) VALUES (?, ?, ?)')
    this.#findRemoved = db.prepare('SELECT 1 FROM removed WHERE kind = ? AND key = ? LIMIT 1')
    this.epoch = this.#meta('epoch') ?? this.#setMeta('epoch', randomUUID())
    this.#revision = Number(this.#meta('revision') ?? 0)
    this.#removals = db.prepare<[], { n: number }>('SELECT count(*) AS n FROM removed').get()?.n ?? 0
  }

  get revision(): number {
    return this.#revision
  }

  /**
   * Runs `work` in one transaction and notifies listeners after the commit. A call within `work` joins the transaction.
   * `work` must not catch errors of such a call, because the whole transaction must fail.
   */
  transaction<T>(work: () => T): T {
    if (this.#open) return work()
    if (this.db.inTransaction)
      throw new Error(
        'transaction(): the database is already in a transaction that Changes.transaction() has not begun',
      )
    const result = this.#commit(work)
    this.#tell()
    return result
  }

  /** Records a change. @returns the revision to store in the changed row */
  record(kind: ChangeKind, key: string, removed = false): number {
    if (!this.#open) throw new Error('record() was called outside a transaction')
    this.#revision += 1
    const change = { revision: this.#revision, kind, key, removed }
    this.#pending.push(change)
    if (removed) this.#remember(change)
    return change.revision
  }

  onChange(listener: (change: Change) => void): () => void {
    const own = (change: Change): void => listener(change) // each call adds a new function, so that one listener can be added twice
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  /** Returns the removals after a revision. Undefined: some were forgotten, so the watcher must read all data again. */
  removedSince(revision: number): Change[] | undefined {
    const forgotten = Number(this.#meta('removals_forgotten') ?? 0)
    if (revision < forgotten || revision > this.#revision) return undefined
    const rows = this.db
      .prepare<[number], { revision: number; kind: ChangeKind; key: string }>(
        'SELECT revision, kind, key FROM removed WHERE revision > ? ORDER BY revision',
      )
      .all(revision)
    return rows.map((row) => ({ ...row, removed: true }))
  }

  /** True if the entity was removed and the removal is still remembered. */
  wasRemoved(kind: ChangeKind, key: string): boolean {
    return this.#findRemoved.get(kind, key) !== undefined
  }

  #commit<T>(work: () => T): T {
    const before = this.#revision
    const removalsBefore = this.#removals
    this.#open = true
    try {
      const result = this.db.transaction(() => {
        const value = work()
        if (this.#revision !== before) this.#setMeta('revision', String(this.#revision))
        return value
      })()
      this.#told.push(...this.#pending)
      return result
    } catch (error) {
      this.#revision = before
      this.#removals = removalsBefore
      throw error
    } finally {
      this.#pending = []
      this.#open = false
    }
  }

  /** Notifies all listeners in the order of the changes, even if a listener makes another change meanwhile. */
  #tell(): void {
    if (this.#telling) return
    this.#telling = true
    try {
      for (let change = this.#told.shift(); change; change = this.#told.shift())
        for (const listener of [...this.#listeners]) this.#tellOne(listener, change)
    } finally {
      this.#telling = false
    }
  }

  /** Notifies one listener. Catches the listener's errors, because the change is already committed. */
  #tellOne(listener: (change: Change) => void, change: Change): void {
    try {
      listener(change)
    } catch (error) {
      this.#onListenerError(error)
    }
  }

  #remember(change: Change): void {
    this.#insertRemoved.run(change.revision, change.kind, change.key)
    this.#removals += 1
    // Deletes old removals in batches, so that the time to record a removal does not depend on their number.
    if (this.#removals > this.#keptRemovals + Math.max(1, this.#keptRemovals / 10)) this.#forget()
  }

  #forget(): void {
    const newest = this.db
      .prepare<[number], { revision: number }>('SELECT revision FROM removed ORDER BY revision DESC LIMIT 1 OFFSET ?')
      .get(this.#keptRemovals)
    if (!newest) return
    this.db.prepare('DELETE FROM removed WHERE revision <= ?').run(newest.revision)
    this.#setMeta('removals_forgotten', String(newest.revision))
    this.#removals = this.#keptRemovals
  }

  #meta(key: string): string | undefined {
    return this.#getMeta.get(key)?.value
  }

  #setMeta(key: string, value: string): string {
    this.#putMeta.run(key, value)
    return value
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
