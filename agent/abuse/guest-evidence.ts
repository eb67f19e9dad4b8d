import type { OpenedFlow } from '../host/net/flows-of.js'
import type { PacketSample } from '../host/net/packet-log.js'
import type { AbuseClaim, CountRow, Evidence, RecordedFlow } from './contract.js'
import { isQuiet, noCounts, planGrowth, type PacketCounts } from './plan-counts.js'

const mailPort = 25
/** Limits for the recorded flows of one guest: maximum age in ms, and maximum number. A flow takes about 100 bytes. */
const kept = {
  rowsMs: 600_000,
  mailMs: 3_600_000,
  countsMs: 600_000,
  rows: 6000,
  mail: 4000,
  claims: 500,
  /** Maximum number of flows in `#noted`. If there are more, the oldest ones are removed. */
  noted: 20_000,
} as const
/** Time in ms after which a flow that still exists is recorded again. */
const notedMs = 240_000
/** Time in ms after which a flow without an answer counts as unanswered. */
const patienceMs = 5000

export class GuestEvidence {
  #rows: RecordedFlow[] = []
  #mail: RecordedFlow[] = []
  #claims: AbuseClaim[] = []
  #counts: CountRow[] = []
  #counted: { readonly atMs: number; readonly counts: PacketCounts } | undefined
  /** Time in ms since 1970 at which each flow was last recorded, by the key of the flow. */
  readonly #noted = new Map<string, number>()
  /** Time in ms since 1970 at which the guest's flows were last read from the connection tracking table. */
  lookedAtMs = 0

  get size(): number {
    return this.#rows.length + this.#mail.length
  }

  get notedFlows(): number {
    return this.#noted.size
  }

  latest(count: number): RecordedFlow[] {
    return this.#rows.slice(-count).reverse()
  }

  addSample(sample: PacketSample, atMs: number): void {
    const { target, port, count, kind } = sample
    if (kind === 'opened' || kind === 'refused')
      return this.#add({ atMs, outcome: kind, target, port, count, protocol: sample.protocol })
    const way = kind === 'proxy' ? { way: sample.way } : {}
    this.#claims.push({ atMs, kind, target, port, ...way })
  }

  addCounts(now: PacketCounts, atMs: number): void {
    const before = this.#counted
    this.#counted = { atMs, counts: now }
    if (!before) return
    const grown = planGrowth(before.counts, now)
    if (isQuiet(grown) && isQuiet(this.#counts.at(-1) ?? noCounts)) return
    this.#counts.push({ ...grown, atMs, seconds: Math.max(0.001, (atMs - before.atMs) / 1000) })
  }

  /**
   * Records the outcomes of flows from the connection tracking table, except flows that were opened too recently to
   * count as unanswered. An unanswered flow is recorded with the time at which it began to count as unanswered. With
   * the present time instead, flows that failed one after another would look like a burst.
   */
  addFlows(flows: readonly OpenedFlow[], atMs: number, ageMs: (flow: OpenedFlow) => number): void {
    for (const flow of flows) {
      const lateMs = flow.unreplied ? ageMs(flow) - patienceMs : 0
      if (lateMs < 0) continue
      const { target, targetPort: port, protocol } = flow
      const outcome = flow.unreplied ? 'unanswered' : 'answered'
      const key = `${outcome} ${protocol} ${target} ${port} ${flow.sourcePort}`
      if ((this.#noted.get(key) ?? 0) > atMs - notedMs) continue
      this.#note(key, atMs)
      const replied = flow.unreplied || flow.replyBytes === 0 ? {} : { replyBytes: flow.replyBytes }
      this.#add({ atMs: atMs - lateMs, outcome, target, port, protocol, count: 1, ...replied })
    }
    this.#rows.sort((a, b) => a.atMs - b.atMs)
  }

  /** Deletes observations that are too old, and the oldest ones if there are too many. */
  prune(nowMs: number): void {
    this.#rows = newest(this.#rows, nowMs - kept.rowsMs, kept.rows)
    this.#mail = newest(this.#mail, nowMs - kept.mailMs, kept.mail)
    this.#claims = newest(this.#claims, nowMs - kept.rowsMs, kept.claims)
    this.#counts = newest(this.#counts, nowMs - kept.countsMs, Infinity)
    for (const [key, atMs] of this.#noted) if (atMs <= nowMs - notedMs) this.#noted.delete(key)
  }

  /** Deletes all observations except the last packet counters, so that earlier behaviour no longer counts. */
  forget(): void {
    this.#rows = []
    this.#mail = []
    this.#claims = []
    this.#counts = []
    this.#noted.clear()
  }

  view(nowMs: number, isMailServer: boolean): Evidence {
    return {
      nowMs,
      rows: this.#rows,
      mail: this.#mail,
      claims: this.#claims,
      counts: this.#counts,
      isMailServer,
    }
  }

  /** Remembers that the flow was recorded. If too many flows are remembered, forgets the oldest one. */
  #note(key: string, atMs: number): void {
    this.#noted.delete(key)
    this.#noted.set(key, atMs)
    if (this.#noted.size <= kept.noted) return
    for (const oldest of this.#noted.keys()) return void this.#noted.delete(oldest)
  }

  #add(row: RecordedFlow): void {
    this.#rows.push(row)
    if (row.outcome === 'opened' && row.protocol === 'tcp' && row.port === mailPort) this.#mail.push(row)
  }
}

function newest<Row extends { readonly atMs: number }>(rows: Row[], sinceMs: number, most: number): Row[] {
  const first = rows.findIndex(({ atMs }) => atMs > sinceMs)
  const start = Math.max(first < 0 ? rows.length : first, rows.length - most)
  return start === 0 ? rows : rows.slice(start)
}
