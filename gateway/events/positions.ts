import { hostOfLane, kindOfLane, onlineLane, type ChangeMark } from '../fleet/change-mark.js'

/** The last delivered number of each lane (see `ChangeMark.lane`). Lanes have the same numbers at all gateways. */
export type Position = ReadonlyMap<string, number>

/** Position of an entry in its lane. Each event of a change has its own `at`, as a client can lack some of them. */
export interface EntryMark extends Omit<ChangeMark, 'revision'> {
  readonly at: number
}

/** Maximum number of events of one change. */
const partsOf = 1024

/** @param part number of the event among the events of its change, from 0 */
export function markAt({ revision, ...mark }: ChangeMark, part: number): EntryMark {
  return { ...mark, at: revision * partsOf + Math.min(part, partsOf - 1) }
}

/** Returns the mark that follows all events of a change. */
export function markAfter(mark: ChangeMark): EntryMark {
  return markAt(mark, partsOf - 1)
}

/** True if the gateway at this position is connected to the host. */
export function isOnlineIn(position: Position, hostId: string): boolean {
  return Math.floor((position.get(onlineLane(hostId)) ?? 0) / partsOf) === 1
}

/** Advances a position by one entry of the ring. */
export function advance(position: Map<string, number>, mark: EntryMark | undefined): void {
  if (!mark || mark.isPartial) return
  if (!position.has(mark.lane)) dropReplaced(position, mark.lane)
  position.set(mark.lane, mark.at)
}

/** Drops the lanes that `lane` replaces: all lanes of a removed host, or the lane of a host's former journal. */
export function dropReplaced(position: Map<string, number>, lane: string): void {
  const [host, kind] = [hostOfLane(lane), kindOfLane(lane)]
  if (kind !== 'removed' && kind !== 'journal') return
  for (const other of position.keys())
    if (hostOfLane(other) === host && (kind === 'removed' || kindOfLane(other) === kind)) position.delete(other)
}

/** Returns the position of a client that has received all changes of `a` and `b`. */
export function join(a: Position, b: Position): Position {
  const joined = new Map(a)
  for (const [lane, at] of b) joined.set(lane, Math.max(at, joined.get(lane) ?? at))
  return joined
}

/** True if a client at `position` has received everything in `base`, except usage samples and connection states. */
export function includes(position: Position, base: Position): boolean {
  for (const [lane, at] of base) if (isLasting(lane) && (position.get(lane) ?? -1) < at) return false
  return true
}

/** True for lanes in which a client must not miss a change. False if the next change replaces a missed one. */
function isLasting(lane: string): boolean {
  const kind = kindOfLane(lane)
  return kind === 'journal' || kind === 'record'
}
