import { randomInt } from 'node:crypto'
import type { Statement } from 'better-sqlite3'
import { BerthError } from '../../shared/errors.js'
import type { Database } from '../state/database.js'

export { readListeningPorts } from '../host/net/listening-ports.js'

export interface PortRange {
  readonly start: number
  readonly end: number
}

/** Host ports of one mapping, from `first` to `last` inclusive. */
export interface PortSpan {
  readonly protocol: 'tcp' | 'udp'
  /** Host address. Empty: every local address, so that the span overlaps the spans of all addresses. */
  readonly hostIp: string
  readonly first: number
  readonly last: number
}

export interface PortRequest {
  readonly protocol: 'tcp' | 'udp'
  readonly hostIp: string
  readonly count: number
  /** Number of adjacent ports in each run; default 1. */
  readonly length?: number
}

const tries = 32

/*
 * Finds a mapping that overlaps a span, by one index lookup per host address. Only the last mapping that begins at or
 * before the span's end is read. This is enough, because mappings of one protocol and address never overlap: if an
 * earlier mapping overlaps the span, the last one does, too.
 */
const findOverlap = `
  WITH RECURSIVE addresses (ip) AS (
    SELECT min(host_ip) FROM port_mappings WHERE protocol = @protocol
    UNION ALL
    SELECT (SELECT min(host_ip) FROM port_mappings WHERE protocol = @protocol AND host_ip > ip)
    FROM addresses WHERE ip IS NOT NULL
  )
  SELECT 1 FROM addresses
  WHERE ip IS NOT NULL AND (@hostIp = '' OR ip = '' OR ip = @hostIp) AND @first <= (
    SELECT host_port_end FROM port_mappings
    WHERE protocol = @protocol AND host_ip = ip AND host_port <= @last
    ORDER BY host_port DESC LIMIT 1
  )
  LIMIT 1`

/**
 * Chooses host ports for one request inside the caller's transaction. A port is free if it is not mapped in the
 * journal, no program of the host listens on it, and it was not chosen before.
 */
export class PortChoice {
  readonly #chosen: PortSpan[] = []
  readonly #listening: Readonly<Record<'tcp' | 'udp', readonly number[]>>
  readonly #overlap: Statement<[PortSpan]>

  /** @param listening ports on which the host's programs listen, from `readListeningPorts` */
  constructor(
    private readonly db: Database,
    private readonly range: PortRange,
    listening: ReadonlySet<string>,
  ) {
    this.#listening = { tcp: portsOf(listening, 'tcp'), udp: portsOf(listening, 'udp') }
    this.#overlap = db.prepare(findOverlap)
  }

  /** Chooses exactly these ports. @throws {BerthError} `port_conflict` if a port is out of range or not free */
  take(span: PortSpan): void {
    const { start, end } = this.range
    if (span.first < start || span.last > end)
      throw portConflict(`host ports must be in the port range of the host, from ${start} to ${end}`)
    if (!this.#isFree(span)) throw portConflict(`host port ${describe(span)} is in use`)
    this.#chosen.push(span)
  }

  /** Excludes these ports from further choices. */
  exclude(spans: Iterable<PortSpan>): this {
    this.#chosen.push(...spans)
    return this
  }

  /** Chooses exactly these ports if all of them are free. @returns true if they were free */
  tryTake(span: PortSpan): boolean {
    const free = span.first >= this.range.start && span.last <= this.range.end && this.#isFree(span)
    if (free) this.#chosen.push(span)
    return free
  }

  /**
   * Picks random free ports. For runs of adjacent ports, returns the first port of each run.
   * @throws {BerthError} `resource_exhausted` if too few ports are free
   */
  pick(request: PortRequest): number[] {
    const picked = this.#pickSome(request)
    const missing = request.count - picked.length
    return missing === 0 ? picked : [...picked, ...this.#pickExactly({ ...request, count: missing })]
  }

  /** Picks ports by a few random tries. Finds all requested ports, unless the range is nearly full. */
  #pickSome({ protocol, hostIp, count, length = 1 }: PortRequest): number[] {
    const picked: number[] = []
    const { start, end } = this.range
    for (let i = 0; start + length - 1 <= end && picked.length < count && i < tries + 2 * count; i++) {
      const first = randomInt(start, end - length + 2)
      const span = { protocol, hostIp, first, last: first + length - 1 }
      if (!this.#isFree(span)) continue
      this.#chosen.push(span)
      picked.push(first)
    }
    return picked
  }

  /**
   * Picks runs of adjacent ports from all free ports. A single run is found if it fits anywhere. Several runs are not
   * always found, because the first run can take the only place that fits the second one. The call then fails.
   */
  #pickExactly({ protocol, hostIp, count, length = 1 }: PortRequest): number[] {
    const taken = this.#takenPorts({ protocol, hostIp })
    const picked: number[] = []
    for (const first of shuffle(findRows(this.range, taken, length))) {
      if (picked.length === count) break
      const span = { protocol, hostIp, first, last: first + length - 1 }
      if (length > 1 && this.#chosen.some((other) => overlap(span, other))) continue
      this.#chosen.push(span)
      picked.push(first)
    }
    if (picked.length < count)
      throw new BerthError('exhausted', 'resource_exhausted', `the host has no free ${protocol} ports for mappings`)
    return picked
  }

  #takenPorts({ protocol, hostIp }: Pick<PortSpan, 'protocol' | 'hostIp'>): Set<number> {
    const rows = this.db
      .prepare<[string, string, string], { first: number; last: number }>(
        `SELECT host_port AS first, host_port_end AS last FROM port_mappings
         WHERE protocol = ? AND (? = '' OR host_ip IN ('', ?))`,
      )
      .all(protocol, hostIp, hostIp)
    const chosen = this.#chosen.filter((span) => span.protocol === protocol && meet(span.hostIp, hostIp))
    const taken = new Set(this.#listening[protocol])
    for (const { first, last } of [...rows, ...chosen]) for (let port = first; port <= last; port++) taken.add(port)
    return taken
  }

  #isFree(span: PortSpan): boolean {
    const reaches = (port: number): boolean => port >= span.first && port <= span.last
    if (this.#listening[span.protocol].some(reaches)) return false
    if (this.#chosen.some((other) => overlap(span, other))) return false
    return this.#overlap.get(span) === undefined
  }
}

/** Counts the mapped ports of the range. A port in several mappings (tcp and udp, or two addresses) counts as one. */
export function countPorts(db: Database, { start, end }: PortRange): number {
  return db.prepare<[PortRange], number>(countCovered).pluck().get({ start, end }) ?? 0
}

const countCovered = `
  SELECT total(max(0, min(last, @end) - max(first, @start, reached + 1) + 1)) FROM (
    SELECT host_port AS first, host_port_end AS last, coalesce(max(host_port_end) OVER (
      ORDER BY host_port ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS reached FROM port_mappings
  )`

/** Finds all runs of `length` free ports. @returns the first port of each run */
function findRows({ start, end }: PortRange, taken: ReadonlySet<number>, length: number): number[] {
  const rows: number[] = []
  let free = 0
  for (let port = start; port <= end; port++) {
    free = taken.has(port) ? 0 : free + 1
    if (free >= length) rows.push(port - length + 1)
  }
  return rows
}

/** Shuffles the array in place (Fisher-Yates). @returns the same array */
function shuffle(values: number[]): number[] {
  for (let i = values.length - 1; i > 0; i--) {
    const j = randomInt(i + 1)
    ;[values[i], values[j]] = [values[j]!, values[i]!]
  }
  return values
}

function portsOf(listening: ReadonlySet<string>, protocol: string): number[] {
  return [...listening].flatMap((key) => {
    const [of, port] = key.split(':')
    return of === protocol ? [Number(port)] : []
  })
}

function overlap(a: PortSpan, b: PortSpan): boolean {
  return a.protocol === b.protocol && meet(a.hostIp, b.hostIp) && a.first <= b.last && b.first <= a.last
}

function meet(ip: string, other: string): boolean {
  return ip === '' || other === '' || ip === other
}

function describe({ protocol, first, last }: PortSpan): string {
  return `${first === last ? first : `${first}-${last}`}/${protocol}`
}

function portConflict(message: string): BerthError {
  return new BerthError('conflict', 'port_conflict', message, { field: 'host_port' })
}
