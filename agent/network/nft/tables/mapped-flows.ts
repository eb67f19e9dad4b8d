/** Flows that clients opened to the host ports of one mapping, or of several adjacent mappings. */
export interface MappedFlows {
  readonly protocol: 'tcp' | 'udp'
  /** Host address of the mapping. Empty: every local address of the host. */
  readonly hostIp: string
  readonly hostPort: number
  /** Last port of a range. Equals `hostPort` if the range is a single port. */
  readonly hostPortEnd: number
  /** Address of the guest to which the mapping leads. If the flows are IPv6, it is the guest's IPv6 address. */
  readonly target: string
}

/** Joins flows of adjacent ports with one target, because a mapping of a range can have one element for each port. */
export function joinNeighbours(all: readonly MappedFlows[]): MappedFlows[] {
  const alike = new Map<string, MappedFlows[]>()
  for (const flows of all) {
    const key = `${flows.protocol} ${flows.hostIp} ${flows.target}`
    const row = alike.get(key)
    if (row) row.push(flows)
    else alike.set(key, [flows])
  }
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

/** True if `flows` can contain flows to a host port of `mapping` that lead to a different guest. */
export function leadsElsewhere(flows: MappedFlows, mapping: MappedFlows): boolean {
  return (
    isElsewhere(flows.target, mapping.target) &&
    flows.protocol === mapping.protocol &&
    (flows.hostIp === '' || mapping.hostIp === '' || flows.hostIp === mapping.hostIp) &&
    flows.hostPort <= mapping.hostPortEnd &&
    mapping.hostPort <= flows.hostPortEnd
  )
}

/** True if `target` differs from `address` but has the same family. */
export function isElsewhere(address: string, target: string): boolean {
  return address !== target && address.includes(':') === target.includes(':')
}
