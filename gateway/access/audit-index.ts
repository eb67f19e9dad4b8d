import type { Store } from '../store/store.js'
import { planCuts, type Share } from '../store/fair-cuts.js'
import { readShares } from '../store/shares.js'

export type AuditFields = Record<string, string>

/** A stored audit entry: the start of an action, its outcome, and the number of later similar failures. */
export interface StoredEntry {
  readonly id: string
  readonly start: AuditFields
  /** Outcome of the action. Absent while the action runs, or if the gateway died before it wrote the outcome. */
  readonly outcome: AuditFields | undefined
  /** Number of later failures that share this entry. `repeatedAtMs`: time of the latest one in ms since 1970. */
  readonly repeats: number
  readonly repeatedAtMs: number
}

/** Entries to search: all entries, those of one caller (by `Principal.ref`), or those about some guests (by uuid). */
export type Scope = 'all' | { readonly by: string } | { readonly guests: Iterable<string> }

/** Period in ms since 1970. It includes its start and its end. Without a start or an end, it is open on that side. */
export interface Span {
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

/** Maximum number of entries in one command of the store. */
const atOnce = 500

/** Commands of the store that are executed together or not at all. */
export interface AuditTransaction {
  hSet(key: string, field: string, value: string): unknown
  hDel(key: string, fields: string | string[]): unknown
  hIncrBy(key: string, field: string, by: number): unknown
  zAdd(key: string, entry: { score: number; value: string }): unknown
  zRem(key: string, members: string | string[]): unknown
  sAdd(key: string, member: string): unknown
}

/**
 * Audit entries with their indexes.
 * | key | holds |
 * |---|---|
 * | `audit-entries` | hash: id → start of the action as JSON |
 * | `audit-outcomes` | hash: id → outcome as JSON |
 * | `audit-repeats` | hash: id → number of later failures that share the entry |
 * | `audit-repeated` | hash: id → time of the latest failure that shares the entry |
 * | `audit-ids` | sorted set: ids of all entries by time |
 * | `audit-by:REF` | sorted set: ids of a caller's entries by time |
 * | `audit-guest:UUID` | sorted set: ids of the entries about a guest by time |
 * | `audit-callers` | set: callers that have entries, each with its `Principal.root` |
 */
export class AuditIndex {
  constructor(private readonly store: Store) {}

  /** @param id begins with the time of the entry in ms and a dash */
  async add(id: string, start: AuditFields): Promise<void> {
    await this.#commit('write an audit entry', (multi) => this.put(multi, id, start))
  }

  put(multi: AuditTransaction, id: string, start: AuditFields): void {
    const { by = '', root = '' } = start
    const entry = { score: timeOf(id), value: id }
    multi.hSet(this.#entries, id, JSON.stringify(start))
    multi.zAdd(this.#ids, entry)
    multi.zAdd(this.#by(by), entry)
    multi.sAdd(this.#callers, JSON.stringify([root || by, by]))
  }

  /** Adds the outcome to an audit entry. If the entry was removed meanwhile, it is not created again. */
  async end(id: string, outcome: AuditFields): Promise<void> {
    await this.store.run('write an audit entry', async (client) => {
      if (await client.hExists(this.#entries, id)) await this.#commitEnd(id, outcome)
    })
  }

  putOutcome(multi: AuditTransaction, id: string, outcome: AuditFields): void {
    const { container = '' } = outcome
    multi.hSet(this.#outcomes, id, JSON.stringify(outcome))
    if (container !== '') multi.zAdd(this.#guest(container), { score: timeOf(id), value: id })
  }

  /**
   * Removes the entry of a failed action, and counts the failure in the earlier entry `into`.
   * @returns false if the earlier entry no longer exists
   */
  async merge(id: string, by: string, into: string): Promise<boolean> {
    return this.store.run('write an audit entry', async (client) => {
      if (!(await client.hExists(this.#entries, into))) return false
      await this.#commit('write an audit entry', (multi) => {
        multi.hDel(this.#entries, id)
        multi.zRem(this.#ids, id)
        multi.zRem(this.#by(by), id)
        multi.hIncrBy(this.#repeats, into, 1)
        multi.hSet(this.#repeated, into, String(timeOf(id)))
      })
      return true
    })
  }

  async count(scope: 'all' | { readonly by: string }, { fromMs, toMs }: Span): Promise<number> {
    const key = scope === 'all' ? this.#ids : this.#by(scope.by)
    return this.store.run('count audit entries', async (client) =>
      Number(await client.zCount(key, fromMs ?? '-inf', toMs ?? '+inf')),
    )
  }

  /** Yields ids of audit entries in pages, newest first. */
  async *pages(scope: Scope, span: Span): AsyncGenerator<string[]> {
    if (scope !== 'all' && 'guests' in scope) {
      yield* this.#pagesOfGuests([...scope.guests], span)
      return
    }
    const key = scope === 'all' ? this.#ids : this.#by(scope.by)
    const seen = new Set<string>()
    for (let offset = 0; ; offset += atOnce) {
      const ids = await this.#range(key, span, { offset, count: atOnce })
      // New entries shift older entries to later pages, so this page can repeat ids of the previous page.
      yield ids.filter((id) => !seen.has(id))
      if (ids.length < atOnce) return
      seen.clear()
      for (const id of ids) seen.add(id)
    }
  }

  /** Reads the entries that still exist, in the same order as `ids`. */
  async read(ids: readonly string[]): Promise<StoredEntry[]> {
    if (ids.length === 0) return []
    const names = [this.#entries, this.#outcomes, this.#repeats, this.#repeated]
    const [starts, outcomes, repeats, repeated] = (await this.store.run('read audit entries', (client) =>
      Promise.all(names.map((name) => client.hmGet(name, [...ids]))),
    )) as readonly Texts[] as [Texts, Texts, Texts, Texts]
    return ids.flatMap((id, at) => {
      const start = parse(starts[at])
      if (start === undefined) return []
      const count = { repeats: Number(repeats[at] ?? 0), repeatedAtMs: Number(repeated[at] ?? 0) }
      return [{ id, start, outcome: parse(outcomes[at]), ...count }]
    })
  }

  /** Removes the oldest entries of the callers with the most entries, until at most `keep` entries are left. */
  async shrink(keep: number): Promise<void> {
    const excess = (await this.count('all', {})) - keep
    if (excess <= 0) return
    // Removes 0.1 % more entries than necessary, so that a full log is not trimmed again after each new entry.
    for (const [ref, cut] of planCuts(await this.#shares(), excess + Math.floor(keep / 1000)))
      for (let left = cut; left > 0; left -= atOnce) await this.#removeOldest(ref, Math.min(left, atOnce))
  }

  async removeBefore(timeMs: number): Promise<void> {
    for (;;) {
      const old = await this.#range(this.#ids, { toMs: timeMs }, { offset: 0, count: atOnce })
      const entries = await this.read(old)
      if (old.length === 0) return
      await this.#remove(old, entries)
    }
  }

  async #removeOldest(ref: string, count: number): Promise<void> {
    const ids = await this.store.run('remove old audit entries', (client) => client.zRange(this.#by(ref), 0, count - 1))
    await this.#remove(ids, await this.read(ids))
  }

  async #remove(ids: readonly string[], entries: readonly StoredEntry[]): Promise<void> {
    if (ids.length === 0) return
    const all = [...ids]
    await this.#commit('remove old audit entries', (multi) => {
      for (const { id, start, outcome } of entries) {
        multi.zRem(this.#by(start['by'] ?? ''), id)
        if (outcome?.['container']) multi.zRem(this.#guest(outcome['container']), id)
      }
      multi.zRem(this.#ids, all)
      for (const name of [this.#entries, this.#outcomes, this.#repeats, this.#repeated]) multi.hDel(name, all)
    })
  }

  #shares(): Promise<Share[]> {
    const names = { callers: this.#callers, by: (ref: string) => this.#by(ref) }
    return readShares(this.store, 'remove old audit entries', names)
  }

  /** Reads and sorts all entries about some guests in one step. This is fast, because a guest has only few entries. */
  async *#pagesOfGuests(uuids: readonly string[], span: Span): AsyncGenerator<string[]> {
    const found = await Promise.all(uuids.map((uuid) => this.#range(this.#guest(uuid), span)))
    const ids = found.flat()
    if (found.length > 1) ids.sort(newestFirst)
    for (let at = 0; at < ids.length; at += atOnce) yield ids.slice(at, at + atOnce)
  }

  #range(key: string, { fromMs, toMs }: Span, limit?: { offset: number; count: number }): Promise<string[]> {
    return this.store.run('read audit entries', (client) =>
      client.zRange(key, toMs ?? '+inf', fromMs ?? '-inf', {
        ...({ BY: 'SCORE', REV: true } as const),
        ...(limit && { LIMIT: limit }),
      }),
    )
  }

  async #commitEnd(id: string, outcome: AuditFields): Promise<void> {
    await this.#commit('write an audit entry', (multi) => this.putOutcome(multi, id, outcome))
  }

  async #commit(step: string, write: (multi: AuditTransaction) => void): Promise<void> {
    await this.store.run(step, async (client) => {
      const multi = client.multi()
      write(multi)
      await multi.exec()
    })
  }

  get #entries(): string {
    return this.store.key('audit-entries')
  }

  get #outcomes(): string {
    return this.store.key('audit-outcomes')
  }

  get #repeats(): string {
    return this.store.key('audit-repeats')
  }

  get #repeated(): string {
    return this.store.key('audit-repeated')
  }

  get #ids(): string {
    return this.store.key('audit-ids')
  }

  get #callers(): string {
    return this.store.key('audit-callers')
  }

  #by(ref: string): string {
    return this.store.key('audit-by', ref)
  }

  #guest(uuid: string): string {
    return this.store.key('audit-guest', uuid)
  }
}

type Texts = readonly (string | null | undefined)[]

function parse(text: string | null | undefined): AuditFields | undefined {
  return typeof text === 'string' ? (JSON.parse(text) as AuditFields) : undefined
}

/** Time in ms since 1970. @param id id of an audit entry */
export function timeOf(id: string): number {
  return Number(id.slice(0, id.indexOf('-')))
}

/** Sorts ids of audit entries in the same order as Redis. */
function newestFirst(a: string, b: string): number {
  return timeOf(b) - timeOf(a) || (a < b ? 1 : -1)
}
