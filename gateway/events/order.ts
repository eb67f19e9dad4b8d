import { advance, type Position } from './positions.js'
import type { EventRing } from './ring.js'

/**
 * Records the entries `from` to `to - 1` of one gateway's `EventRing`. A client's `Position` can be computed from these
 * records, earlier records and the number of the client's last entry.
 */
export interface OrderEntry {
  readonly from: number
  readonly to: number
  /** `Position` of a client before the ring's entry `from`. Absent: the position after the previous `OrderEntry`. */
  readonly base?: Readonly<Record<string, number>>
  /** By lane (see `ChangeMark.lane`): one pair for each entry of the lane, with its number in the ring and its `at`. */
  readonly lanes: Readonly<Record<string, readonly (readonly [number, number])[]>>
}

/** Number of events whose order is stored under one key. To find a position, only one key is read. */
export const segmentSize = 4096

export function segmentOf(number: number): number {
  return Math.floor(number / segmentSize)
}

/**
 * Records the ring's entries `from` to `to - 1`, in one `OrderEntry` for each segment. The first `OrderEntry` of a
 * segment has a `base`.
 * @param base position of a client before the ring's entry `from`
 * @param isFirst true: nothing was stored before, so the first `OrderEntry` needs a base even within a segment
 */
export function planOrder(
  ring: Pick<EventRing, 'at'>,
  { from, to, base, isFirst }: { from: number; to: number; base: Position; isFirst: boolean },
): OrderEntry[] {
  const position = new Map(base)
  const entries: OrderEntry[] = []
  for (let begin = from; begin < to || (isFirst && entries.length === 0);) {
    const end = Math.min(to, (segmentOf(begin) + 1) * segmentSize)
    const needsBase = (isFirst && begin === from) || begin % segmentSize === 0
    const before = needsBase ? { base: Object.fromEntries(position) } : {}
    entries.push({ from: begin, to: end, ...before, lanes: collectLanes(ring, [begin, end], position) })
    begin = end
  }
  return entries
}

function collectLanes(ring: Pick<EventRing, 'at'>, [from, to]: [number, number], position: Map<string, number>) {
  const lanes: Record<string, [number, number][]> = {}
  for (let number = from; number < to; number++) {
    const { mark } = ring.at(number)
    if (!mark || mark.isPartial) continue
    advance(position, mark)
    ;(lanes[mark.lane] ??= []).push([number, mark.at])
  }
  return lanes
}

/**
 * Returns the position of a client that has received the events up to `number`.
 * @param entries entries of the segment of `number`, in the order in which they were stored
 * @returns undefined if the entries do not contain this position
 */
export function findPosition(entries: readonly OrderEntry[], number: number): Position | undefined {
  let position: Map<string, number> | undefined
  let reached = 0
  for (const { from, to, base, lanes } of entries) {
    if (from > number + 1) break
    if (base) position = new Map(Object.entries(base))
    else if (!position || reached !== from) return undefined
    applyLanes(position, lanes, number)
    reached = to
  }
  return reached > number ? position : undefined
}

/** Advances each lane of a position to the last event of the lane whose number is at most `number`. */
function applyLanes(position: Map<string, number>, lanes: OrderEntry['lanes'], number: number): void {
  const last = Object.entries(lanes).flatMap(([lane, steps]) => {
    const step = steps.findLast(([event]) => event <= number)
    return step ? [{ event: step[0], lane, at: step[1] }] : []
  })
  for (const mark of last.sort((a, b) => a.event - b.event)) advance(position, mark)
}
