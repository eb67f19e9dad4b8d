/** Flows by the host ports they came to: those of one mapping, or of several in a row. */
export interface MappedFlows {
  readonly protocol: 'tcp' | 'udp'
  /** Host address it answered on; empty: every local one. */
  readonly hostIp: string
  readonly hostPort: number
  /** Last of a range; `hostPort` for a single one. */
  readonly hostPortEnd: number
  /** Guest's address, of the family of all its flows. */
  readonly target: string
}

/** Ports in a row that lead to one address become one: a range that is shifted is an element for each port. */
export function joinNeighbours(all: readonly MappedFlows[]): MappedFlows[] {
  const alike = groupBy(all, ({ protocol, hostIp, target }) => [`${protocol} ${hostIp} ${target}`])
  return [...alike.values()].flatMap(joinRows)
}

function joinRows(alike: readonly MappedFlows[]): MappedFlows[] {
  const joined: MappedFlows[] = []
  for (const flows of alike.toSorted((a, b) => a.hostPort - b.hostPort)) {
    const last = joined.at(-1)
    if (!last || flows.hostPort > last.hostPortEnd + 1) joined.push(flows)
    else if (flows.hostPortEnd > last.hostPortEnd)
      joined[joined.length - 1] = { ...last, hostPortEnd: flows.hostPortEnd }
  }
  return joined
}

/** Up to and with one that begins at `first`: which reaches furthest, and how far one of another target does. */
interface Reach {
  readonly first: number
  readonly target: string
  readonly last: number
  readonly otherLast: number
}

/** Finds flows that end at another guest than a mapping's, however many there are of either. */
export class MappedFlowIndex {
  /** By protocol, family and host address, and those of all addresses together. */
  readonly #reaches: ReadonlyMap<string, readonly Reach[]>

  constructor(all: readonly MappedFlows[]) {
    const byPlace = groupBy(all, (flows) => [keyOf(flows, flows.hostIp), keyOf(flows, 'any')])
    this.#reaches = new Map([...byPlace].map(([key, flows]) => [key, reachesOf(flows)]))
  }

  /** Are there any at the mapping's ports, of its family? */
  leadsElsewhere(mapping: MappedFlows): boolean {
    const places = mapping.hostIp === '' ? ['any'] : ['', mapping.hostIp]
    return places.some((place) => {
      const reach = findLast(this.#reaches.get(keyOf(mapping, place)) ?? [], mapping.hostPortEnd)
      if (!reach) return false
      return (reach.target === mapping.target ? reach.otherLast : reach.last) >= mapping.hostPort
    })
  }
}

function keyOf({ protocol, target }: MappedFlows, place: string): string {
  return `${protocol} ${target.includes(':') ? 'ipv6' : 'ipv4'} ${place}`
}

function reachesOf(flows: readonly MappedFlows[]): Reach[] {
  const reaches: Reach[] = []
  let [target, last, otherLast] = ['', 0, 0]
  for (const next of flows.toSorted((a, b) => a.hostPort - b.hostPort)) {
    const isOther = next.target !== target
    if (isOther) otherLast = Math.max(otherLast, Math.min(last, next.hostPortEnd))
    if (next.hostPortEnd > last) [target, last] = [next.target, next.hostPortEnd]
    reaches.push({ first: next.hostPort, target, last, otherLast })
  }
  return reaches
}

/** The last that begins at or before a port. */
function findLast(reaches: readonly Reach[], port: number): Reach | undefined {
  let [from, to] = [0, reaches.length]
  while (from < to) {
    const middle = (from + to) >>> 1
    if (reaches[middle]!.first <= port) from = middle + 1
    else to = middle
  }
  return reaches[from - 1]
}

function groupBy<T>(items: readonly T[], keysOf: (item: T) => readonly string[]): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items)
    for (const key of keysOf(item)) {
      const group = groups.get(key)
      if (group) group.push(item)
      else groups.set(key, [item])
    }
  return groups
}
