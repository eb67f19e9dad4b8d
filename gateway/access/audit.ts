import type { Logger } from 'pino'
import type { Store } from '../store/store.js'
import { outcomeUnknown, parseEntry, type AuditRecord } from './audit-record.js'
import type { AuditEntry, AuditLog, AuditOutcome, AuditStart } from './contract.js'
import { LateOutcomes } from './late-outcomes.js'
import type { Guests } from './principal.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** Which entries to read; absent fields do not filter. */
export interface AuditFilter {
  readonly action?: string | undefined
  readonly user?: string | undefined
  readonly target?: string | undefined
  /** `Principal.ref`: what it did itself. */
  readonly by?: string | undefined
  readonly success?: boolean | undefined
  /** ms since 1970, both inclusive. */
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
  /** Only entries about these guests; failures of others are cut to their code. */
  readonly guests: Guests
  /** Whether entries about other guests and about none are read too: of what one did oneself. Default: no. */
  readonly all?: boolean
  /** Entries of the time span that are looked through, matching or not, in whole reads. Default: all. */
  readonly among?: number | undefined
  /** Whether `total` is needed; without, it stops once the page is full. Default: yes. */
  readonly counted?: boolean
}

/** What is looked through for those who may ask at any time and see few entries. */
export const amongForBound = 10_000

export interface AuditPage {
  /** Newest first. */
  readonly records: AuditRecord[]
  /** Number of all matching entries that were looked through, not only those of the page. */
  readonly total: number
}

/** Entries per read of the store. */
const maxChunk = 1000
/** Kept in addition: late outcomes of deleted entries must not push out those of kept ones. */
const spareOutcomes = 1000
/** An outcome follows its entry within this time, or is a late one; no handler runs longer. */
const outcomeDelayMs = 3_600_000

/** Most characters of what comes from requests, so that it does not inflate entries. */
const longest = { target: 200, detail: 1000 } as const

const dayMs = 86_400_000
const streams = ['audit', 'audit-outcome', 'audit-late'] as const

type Fields = Record<string, string>

interface Message {
  readonly id: string
  readonly fields: Fields
}

/**
 * Keeps two streams: what was begun, and how it ended. Both only grow at the end and are cut to `keep`, so that an
 * entry costs one durable command before the action and one after it. A third stream, nearly always empty, has outcomes
 * that the store could take only later.
 */
export class AuditStore implements AuditLog {
  readonly #late: LateOutcomes<Fields>

  constructor(
    private readonly store: Store,
    private readonly keep: number,
    log: Logger,
  ) {
    this.#late = new LateOutcomes((fields) => this.#append('audit-late', keep, fields), log)
    store.on('up', () => void this.#late.flush())
  }

  async begin(start: AuditStart): Promise<AuditEntry> {
    const { action, caller, address, requestId } = start
    const target = shorten(start.target, longest.target)
    const entry = { by: caller.ref, action, target, user: caller.user, address, request_id: requestId }
    return { id: await this.#append('audit', this.keep, entry) }
  }

  async finish(entry: AuditEntry, outcome: AuditOutcome): Promise<void> {
    const { success, containerUuid = '' } = outcome
    const target = shorten(outcome.target, longest.target)
    const detail = shorten(outcome.detail, longest.detail)
    const fields = { of: entry.id, success: success ? '1' : '0', target, detail, container: containerUuid }
    try {
      await this.#append('audit-outcome', this.keep + spareOutcomes, fields)
    } catch (cause) {
      this.#late.add(fields)
      throw cause
    }
    void this.#late.flush()
  }

  /**
   * @param page from 1; `undefined`: all entries
   * @throws {BerthError} `store_unavailable`
   */
  async read(filter: AuditFilter, page?: { page: number; size: number }): Promise<AuditPage> {
    const [first, last] = page ? [(page.page - 1) * page.size, page.page * page.size] : [0, Infinity]
    const countFrom = await this.#countUnfiltered(filter)
    const records: AuditRecord[] = []
    let total = 0
    const chunk = countFrom === undefined ? maxChunk : Math.min(maxChunk, last)
    const enough = countFrom !== undefined || filter.counted === false ? last : Infinity
    for await (const page of this.#scan(filter, chunk)) {
      for (const record of page) {
        if (!matches(record, filter)) continue
        if (total >= first && total < last) records.push(shownTo(filter.guests, record))
        total++
      }
      if (total >= enough) break
    }
    return { records, total: countFrom ?? total }
  }

  /** The number of all entries, if the filter matches all. */
  async #countUnfiltered(filter: AuditFilter): Promise<number | undefined> {
    const { guests, ...fields } = filter
    if (guests !== 'all' || Object.values(fields).some((value) => value !== undefined)) return undefined
    return this.store.run('count audit entries', (client) => client.xLen(this.store.key('audit')))
  }

  /** Entries of the filter's time span, newest first, each with its outcome. */
  async *#scan({ fromMs, toMs, among = Infinity }: AuditFilter, most: number): AsyncGenerator<AuditRecord[]> {
    const chunk = Math.min(most, among)
    let left = among
    const outcomes = await this.#readLateOutcomes(fromMs)
    const latestMs = toMs === undefined ? undefined : toMs + outcomeDelayMs
    const outcomePages = this.#pages('audit-outcome', chunk, fromMs, latestMs)
    let oldestOutcome = latestMs === undefined ? Infinity : latestMs
    for await (const messages of this.#pages('audit', chunk, fromMs, toMs)) {
      const oldestEntry = timeOf(messages.at(-1)?.id)
      while (oldestOutcome >= oldestEntry) {
        const next = await outcomePages.next()
        if (next.done) break
        for (const { fields } of next.value) if (fields['of']) outcomes.set(fields['of'], fields)
        oldestOutcome = timeOf(next.value.at(-1)?.id)
      }
      yield messages.map(({ id, fields }) => {
        const record = parseEntry(id, fields, outcomes.get(id))
        outcomes.delete(id)
        return record
      })
      left -= messages.length
      if (left <= 0) return
    }
  }

  /** Outcomes by entry id; they may be much younger than their entries. */
  async #readLateOutcomes(fromMs?: number): Promise<Map<string, Fields>> {
    const outcomes = new Map<string, Fields>()
    for await (const messages of this.#pages('audit-late', maxChunk, fromMs))
      for (const { fields } of messages) if (fields['of']) outcomes.set(fields['of'], fields)
    return outcomes
  }

  async *#pages(stream: string, chunk: number, fromMs?: number, toMs?: number): AsyncGenerator<Message[]> {
    const start = fromMs === undefined ? '-' : String(fromMs)
    for (let end = toMs === undefined ? '+' : String(toMs); ;) {
      const messages = await this.store.run('read audit entries', async (client) =>
        decode(await client.xRevRange(this.store.key(stream), end, start, { COUNT: chunk })),
      )
      if (messages.length > 0) yield messages
      const last = messages.at(-1)
      if (messages.length < chunk || !last) return
      end = `(${last.id}`
    }
  }

  /** What began more than so many days ago goes, with its outcome. @throws {BerthError} `store_unavailable` */
  async trim(keepDays: number): Promise<void> {
    const oldest = String(steadyClock.earliest() - keepDays * dayMs)
    await this.store.run('trim audit entries', (client) =>
      Promise.all(streams.map((stream) => client.xTrim(this.store.key(stream), 'MINID', oldest as never))),
    )
  }

  async #append(stream: string, keep: number, fields: Fields): Promise<string> {
    const trim = { strategy: 'MAXLEN', strategyModifier: '=', threshold: keep } as const
    return this.store.run('write an audit entry', (client) =>
      client.xAdd(this.store.key(stream), '*', { e: JSON.stringify(fields) }, { TRIM: trim }),
    )
  }
}

/** One field holds the whole entry, since parsing dominates the reading of a hundred thousand entries. */
function decode(messages: { id: string; message: Fields }[] | null): Message[] {
  return (messages ?? []).map(({ id, message }) => ({
    id,
    fields: JSON.parse(message['e'] ?? '{}') as Fields,
  }))
}

function shorten(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text
}

function timeOf(id: string | undefined): number {
  return Number(id?.split('-')[0] ?? 0)
}

/** Cuts a failure's text to its code for readers bound to some guests, as it may name other guests. */
function shownTo(guests: Guests, record: AuditRecord): AuditRecord {
  if (guests === 'all' || record.success || record.detail.startsWith(outcomeUnknown)) return record
  return { ...record, detail: record.detail.split(':', 1)[0] ?? '' }
}

const compared = ['action', 'user', 'target', 'by', 'success'] as const

function matches(record: AuditRecord, filter: AuditFilter): boolean {
  const { guests, all = false } = filter
  const visible = all || guests === 'all' || guests.has(record.containerUuid)
  return visible && compared.every((name) => filter[name] === undefined || record[name] === filter[name])
}
