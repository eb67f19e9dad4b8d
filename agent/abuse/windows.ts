import type { Severity } from '../../shared/abuse.js'
import type { CountRow, RecordedFlow } from './contract.js'

/* Functions for observations with a time (`atMs`), such as recorded flows. Several detectors use them. */

export function recentRows<Row extends { readonly atMs: number }>(
  rows: readonly Row[],
  nowMs: number,
  seconds: number,
): Row[] {
  return rows.filter(({ atMs }) => atMs > nowMs - seconds * 1000)
}

export function isFailed({ outcome }: RecordedFlow): boolean {
  return outcome === 'refused' || outcome === 'unanswered'
}

/** Groups rows by key, like Map.groupBy, which Node 20 does not have. */
export function groupBy<Row, Key>(rows: readonly Row[], keyOf: (row: Row) => Key): Map<Key, Row[]> {
  const groups = new Map<Key, Row[]>()
  for (const row of rows) {
    const group = groups.get(keyOf(row))
    if (group) group.push(row)
    else groups.set(keyOf(row), [row])
  }
  return groups
}

export function distinct(
  rows: readonly RecordedFlow[],
  keyOf: (row: RecordedFlow) => string,
  valueOf: (row: RecordedFlow) => string,
): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const row of rows) {
    const key = keyOf(row)
    const values = found.get(key)
    if (values) values.add(valueOf(row))
    else found.set(key, new Set([valueOf(row)]))
  }
  return found
}

export const serviceOf = ({ protocol, port }: RecordedFlow): string => `${protocol} ${port}`

export function portOf(service: string): number {
  return Number(service.split(' ')[1])
}

export function sum<Row>(rows: readonly Row[], valueOf: (row: Row) => number): number {
  return rows.reduce((total, row) => total + valueOf(row), 0)
}

/** Returns the average of a value per second over the period that the counts cover. */
export function rateOf(counts: readonly CountRow[], valueOf: (row: CountRow) => number): number {
  const seconds = sum(counts, (row) => row.seconds)
  return seconds === 0 ? 0 : sum(counts, valueOf) / seconds
}

/** Returns the first severity whose condition holds. Pass the worst severity first. */
export function levelOf(...levels: readonly (readonly [Severity, boolean])[]): Severity | undefined {
  return levels.find(([, holds]) => holds)?.[0]
}

/** Returns the most frequent value among the flows, and the fraction of flows that have it; `['', 0]` without rows. */
export function largestShare(
  rows: readonly RecordedFlow[],
  valueOf: (row: RecordedFlow) => string,
): [value: string, share: number] {
  const counted = new Map<string, number>()
  for (const row of rows) counted.set(valueOf(row), (counted.get(valueOf(row)) ?? 0) + row.count)
  const [value, most] = [...counted].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0] as [string, number])
  const all = sum(rows, ({ count }) => count)
  return [value, all === 0 ? 0 : most / all]
}
