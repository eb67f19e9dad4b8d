import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Database } from './database.js'

export type ChangeKind = 'guest' | 'operation' | 'template'

export interface Change {
  readonly revision: number
  readonly kind: ChangeKind
  readonly key: string
  readonly removed: boolean
}

/** How many removals are remembered for watchers that resume. */
const keptRemovals = 20_000

/**
 * Numbers every visible change and tells watchers after the commit. All writes to the journal's visible
 * tables go through `transaction` and call `record` once per changed row, storing the revision in it.
 */
export class Changes {
  /** Identity of this journal: revisions of another one mean nothing here. */
  readonly epoch: string
  #revision: number
  #pending: Change[] = []
  readonly #emitter = new EventEmitter<{ change: [Change] }>()

  constructor(readonly db: Database) {
    this.#emitter.setMaxListeners(0)
    this.epoch = this.#meta('epoch') ?? this.#setMeta('epoch', randomUUID())
    this.#revision = Number(this.#meta('revision') ?? 0)
  }

  get revision(): number {
    return this.#revision
  }

  /** Runs `work` in one transaction (nested calls join it); listeners hear of it after the commit. */
  transaction<T>(work: () => T): T {
    if (this.db.inTransaction) return work()
    const before = this.#revision
    try {
      const result = this.db.transaction(() => {
        const value = work()
        if (this.#revision !== before) this.#setMeta('revision', String(this.#revision))
        return value
      })()
      this.#flush()
      return result
    } catch (error) {
      this.#revision = before
      this.#pending = []
      throw error
    }
  }

  /** @returns the revision to store in the changed row */
  record(kind: ChangeKind, key: string, removed = false): number {
    if (!this.db.inTransaction) throw new Error('record() outside of a transaction')
    this.#revision += 1
    const change = { revision: this.#revision, kind, key, removed }
    this.#pending.push(change)
    if (removed) this.#remember(change)
    return change.revision
  }

  onChange(listener: (change: Change) => void): () => void {
    this.#emitter.on('change', listener)
    return () => this.#emitter.off('change', listener)
  }

  /** Removals after `revision`; undefined when some are forgotten and a watcher must start over. */
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

  #remember(change: Change): void {
    this.db
      .prepare('INSERT INTO removed (revision, kind, key) VALUES (?, ?, ?)')
      .run(change.revision, change.kind, change.key)
    const oldest = this.db
      .prepare<[number], { revision: number }>(
        'SELECT revision FROM removed ORDER BY revision DESC LIMIT 1 OFFSET ?',
      )
      .get(keptRemovals)
    if (!oldest) return
    this.db.prepare('DELETE FROM removed WHERE revision <= ?').run(oldest.revision)
    this.#setMeta('removals_forgotten', String(oldest.revision))
  }

  #flush(): void {
    const changes = this.#pending
    this.#pending = []
    for (const change of changes) this.#emitter.emit('change', change)
  }

  #meta(key: string): string | undefined {
    const row = this.db.prepare<[string], { value: string }>('SELECT value FROM meta WHERE key = ?').get(key)
    return row?.value
  }

  #setMeta(key: string, value: string): string {
    this.db
      .prepare(
        'INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
      )
      .run(key, value)
    return value
  }
}
