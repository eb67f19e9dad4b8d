import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Store } from '../store/store.js'
import { AuditIndex, type AuditFields, type Scope, type Span } from './audit-index.js'
import { moveStreams } from './audit-migration.js'
import { outcomeUnknown, parseEntry, type AuditRecord } from './audit-record.js'
import { AuditRepeats } from './audit-repeats.js'
import type { AuditEntry, AuditLog, AuditOutcome, AuditStart } from './contract.js'
import { LateOutcomes } from './late-outcomes.js'
import type { Guests } from './principal.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** Selects audit entries. An absent field selects all entries. */
export interface AuditFilter extends Span {
  readonly action?: string | undefined
  readonly user?: string | undefined
  readonly target?: string | undefined
  /** `Principal.ref` of the caller whose actions are selected. */
  readonly by?: string | undefined
  readonly success?: boolean | undefined
  /** Guests whose entries are selected. If not `all`, failures of other callers are shown only as error codes. */
  readonly guests: Guests
  /** True: `guests` excludes no entries, but only hides error texts. Used for the list of a caller's own actions. */
  readonly all?: boolean
  /** False: `AuditPage.total` is not needed, so reading stops when the page is full. Default: true. */
  readonly counted?: boolean
}

export interface AuditPage {
  /** Matching entries, newest first. */
  readonly records: AuditRecord[]
  /** Number of all matching entries, on all pages. */
  readonly total: number
}

/** Maximum numbers of characters of texts from requests. They limit the size of an entry. */
const longest = { target: 200, detail: 1000 } as const

const dayMs = 86_400_000

interface LateOutcome {
  readonly id: string
  readonly outcome: AuditFields
}

/**
 * The audit log. Each entry is durably written before its action, and its outcome after the action. Beyond `keep`
 * entries, the callers with the most entries lose their oldest ones, so that no caller can push out entries of others.
 */
export class AuditStore implements AuditLog {
  readonly #index: AuditIndex
  readonly #repeats: AuditRepeats
  readonly #late: LateOutcomes<LateOutcome>
  #begun = 0
  /** `now`: excess entries are being removed. `again`: entries were added meanwhile, so the removal must run again. */
  readonly #shrinking = { now: false, again: false }

  constructor(
    private readonly store: Store,
    private readonly keep: number,
    private readonly log: Logger,
  ) {
    this.#index = new AuditIndex(store)
    this.#repeats = new AuditRepeats(store)
    this.#late = new LateOutcomes(({ id, outcome }) => this.#index.end(id, outcome), log)
    store.on('up', () => void this.#late.flush())
  }

  async begin(start: AuditStart): Promise<AuditEntry> {
    const { action, caller, address, requestId } = start
    const target = shorten(start.target, longest.target)
    const about = { action, target, user: caller.user, address, request_id: requestId }
    const id = this.#newId()
    await this.#index.add(id, { by: caller.ref, root: caller.root ?? caller.ref, ...about })
    this.#shrinkSoon()
    return { id, by: caller.ref, action, address }
  }

  async finish(entry: AuditEntry, outcome: AuditOutcome): Promise<void> {
    const { success, containerUuid = '' } = outcome
    const target = shorten(outcome.target, longest.target)
    const detail = shorten(outcome.detail, longest.detail)
    const fields = { success: success ? '1' : '0', target, detail, container: containerUuid }
    try {
      if (!(await this.#isRepeat(entry, { ...outcome, target, detail }))) await this.#index.end(entry.id, fields)
    } catch (cause) {
      this.#late.add({ id: entry.id, outcome: fields })
      throw cause
    }
    void this.#late.flush()
  }

  /**
   * Counts a repeated failure in the audit entry of an earlier failure.
   * @returns false if the action keeps its own entry, for example because the action was possibly carried out
   */
  async #isRepeat({ id, ...about }: AuditEntry, outcome: AuditOutcome): Promise<boolean> {
    if (outcome.success || outcome.detail.startsWith(outcomeUnknown)) return false
    const { entryId, key } = await this.#repeats.find(id, { ...about, ...outcome })
    if (entryId === id) return false
    if (await this.#index.merge(id, about.by, entryId)) return true
    await this.#repeats.restart(key, id)
    return false
  }

  /** @param page number of the page, from 1; `undefined`: all entries @throws {BerthError} `store_unavailable` */
  async read(filter: AuditFilter, page?: { page: number; size: number }): Promise<AuditPage> {
    const [first, last] = page ? [(page.page - 1) * page.size, page.page * page.size] : [0, Infinity]
    const known = await this.#countAll(filter)
    const records: AuditRecord[] = []
    let total = 0
    const enough = known !== undefined || filter.counted === false ? last : Infinity
    for await (const ids of this.#index.pages(scopeOf(filter), filter)) {
      for (const entry of await this.#index.read(known === undefined ? ids : ids.slice(0, last - total))) {
        const record = parseEntry(entry)
        if (!matches(record, filter)) continue
        if (total >= first && total < last) records.push(shownTo(filter.guests, record))
        total++
      }
      if (total >= enough) break
    }
    return { records, total: known ?? total }
  }

  /** Counts the matching entries without reading them. `undefined`: no index contains exactly these entries. */
  async #countAll(filter: AuditFilter): Promise<number | undefined> {
    const scope = scopeOf(filter)
    const isWhole = ['action', 'user', 'target', 'success'].every((name) => filter[name as 'action'] === undefined)
    if (!isWhole || (scope !== 'all' && 'guests' in scope)) return undefined
    return filter.guests === 'all' || filter.all ? this.#index.count(scope, filter) : undefined
  }

  /** Removes entries of actions that began more than `keepDays` days ago. @throws {BerthError} `store_unavailable` */
  async trim(keepDays: number): Promise<void> {
    await moveStreams(this.store, this.#index)
    await this.#index.removeBefore(steadyClock.earliest() - keepDays * dayMs)
    await this.#index.shrink(this.keep)
  }

  /** Creates an id. Ids sort by time. Ids of one millisecond sort in the order of their creation. */
  #newId(): string {
    const number = String(++this.#begun).padStart(12, '0')
    return `${steadyClock.now()}-${number}-${randomBytes(4).toString('hex')}`
  }

  /** Removes entries if more than `keep` exist. Only one removal runs at a time. `trim` repeats a failed removal. */
  #shrinkSoon(): void {
    this.#shrinking.again = true
    if (!this.#shrinking.now)
      void this.#shrink().catch((err: unknown) =>
        this.log.warn({ err }, 'audit: entries above the limit could not be removed; trying again later'),
      )
  }

  async #shrink(): Promise<void> {
    this.#shrinking.now = true
    try {
      while (this.#shrinking.again) {
        this.#shrinking.again = false
        await this.#index.shrink(this.keep)
      }
    } finally {
      this.#shrinking.now = false
    }
  }
}

/** Selects the smallest index that contains all entries of a filter. */
function scopeOf({ by, guests, all = false }: AuditFilter): Scope {
  if (by !== undefined) return { by }
  return guests === 'all' || all ? 'all' : { guests }
}

function shorten(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text
}

/** Hides the error text from callers restricted to some guests, because it can name other guests. The code is shown. */
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
