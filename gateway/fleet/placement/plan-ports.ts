import { BerthError } from '../../../shared/errors.js'
import type { Guest, PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { PortRange } from '../port-contract.js'

/** Adjacent host ports of one protocol, from `first` to `last` inclusive. */
export interface HostPorts {
  readonly protocol: string
  readonly first: number
  readonly last: number
}

/** Host ports that are reserved for a guest which no host reports with these ports yet. */
export interface ReservedPorts {
  /** Uuid of the guest. Absent: a new guest. */
  readonly holder?: string
  readonly spans: readonly HostPorts[]
}

export type Mapping = Pick<PortMapping, 'protocol' | 'hostPort' | 'hostPortEnd' | 'containerPort' | 'containerPortEnd'>

/** Describes a guest that the caller may not see, or that is not shown yet. */
export const someContainer = 'another container of the fleet'

const portsPerProtocol = 65_536

/** A set of host ports. Addresses do not matter, because a move can change the address of a mapping. */
export class PortSet {
  readonly #used = new Map<string, Uint8Array>()

  add({ protocol, first, last }: HostPorts): void {
    const used = this.#used.get(protocol) ?? new Uint8Array(portsPerProtocol)
    this.#used.set(protocol, used.fill(1, first, last + 1))
  }

  hasAny({ protocol, first, last }: HostPorts): boolean {
    const used = this.#used.get(protocol)
    for (let port = first; used && port <= last; port++) if (used[port]) return true
    return false
  }

  copy(): PortSet {
    const copy = new PortSet()
    for (const [protocol, used] of this.#used) copy.#used.set(protocol, used.slice())
    return copy
  }

  get size(): number {
    return [...this.#used.values()].reduce((sum, used) => sum + used.reduce((count, bit) => count + bit, 0), 0)
  }
}

export interface PortFacts {
  /** Ports of the other guests of the fleet. */
  readonly taken: PortSet
  /** Ranges for automatic ports, preferred first. @throws {BerthError} `agent_outdated` if the host reports no range */
  readonly ranges: () => readonly PortRange[]
  /** True if the host refused the ports of an earlier attempt. Ranges then do not prefer the guest's ports. */
  readonly isRetry?: boolean
  /** Describes the guest that has ports, for an error message. */
  readonly holderOf?: (ports: HostPorts) => string
  /** @returns a random integer from 0 up to, but not including, `max` */
  readonly random: (max: number) => number
}

/**
 * Chooses the host ports of new mappings, so that no other guest of the fleet has them.
 * @param wanted mappings in canonical form. Host port 0: an automatic port
 * @returns the first host port of each mapping
 * @throws {BerthError} `port_conflict`, `resource_exhausted`, or the error of `ranges`
 */
export function planHostPorts(wanted: readonly Mapping[], facts: PortFacts): number[] {
  const named = wanted.filter(({ hostPort }) => hostPort !== 0).map((mapping) => portsOf(mapping))
  for (const ports of named) refuseTaken(ports, facts)
  const taken = facts.taken.copy()
  for (const ports of named) taken.add(ports)
  return wanted.map((mapping) => mapping.hostPort || choose(mapping, { ...facts, taken }))
}

/** Returns the mapping with a host port that was chosen for it. */
export function withHostPort<T extends Mapping>(mapping: T, hostPort: number): T {
  return { ...mapping, hostPort, hostPortEnd: hostPort + lengthOf(mapping) - 1 }
}

/** @param hostPort first host port. Default: the host port of the mapping */
export function portsOf(mapping: Mapping, hostPort = mapping.hostPort): HostPorts {
  const last = Math.min(hostPort + lengthOf(mapping), portsPerProtocol) - 1
  return { protocol: mapping.protocol, first: hostPort, last }
}

/** Returns the ports of a guest that moves. They stay reserved while no host reports the guest as its own. */
export function reservedPorts({ uuid, portMappings }: Pick<Guest, 'uuid' | 'portMappings'>): ReservedPorts {
  return { holder: uuid, spans: portMappings.map((mapping) => portsOf(mapping)) }
}

/** Returns the ports that all ranges contain. Undefined: there are none. */
export function commonRange(ranges: readonly PortRange[]): PortRange | undefined {
  const start = Math.max(...ranges.map((range) => range.start))
  const end = Math.min(...ranges.map((range) => range.end))
  return ranges.length > 0 && start <= end ? { start, end } : undefined
}

/** Counts the host ports that more than one guest has. A guest that maps a port at several addresses counts once. */
export function countDuplicates(guests: Iterable<{ readonly portMappings: readonly Mapping[] }>): number {
  const [taken, twice] = [new PortSet(), new PortSet()]
  for (const { portMappings } of guests) {
    const own = portMappings.map((mapping) => portsOf(mapping))
    for (const ports of own.flatMap(singlePorts)) if (taken.hasAny(ports)) twice.add(ports)
    for (const ports of own) taken.add(ports)
  }
  return twice.size
}

function singlePorts({ protocol, first, last }: HostPorts): HostPorts[] {
  return Array.from({ length: last - first + 1 }, (_, at) => ({ protocol, first: first + at, last: first + at }))
}

/** Reports of agents and new mappings may have the end 0 if they have a single port. */
function lengthOf({ hostPort, hostPortEnd, containerPort, containerPortEnd }: Mapping): number {
  const further = hostPort === 0 ? containerPortEnd - containerPort : hostPortEnd - hostPort
  return Math.max(0, further) + 1
}

function refuseTaken(ports: HostPorts, { taken, holderOf = () => someContainer }: PortFacts): void {
  if (!taken.hasAny(ports)) return
  const { protocol, first, last } = ports
  const range = first === last ? `port ${first}` : `ports ${first}-${last}`
  const message = `host_port: ${protocol} ${range} is used by ${holderOf(ports)}; host ports are unique in the fleet, choose another port`
  throw new BerthError('conflict', 'port_conflict', message, { field: 'host_port' })
}

function choose(mapping: Mapping, facts: PortFacts): number {
  const ranges = facts.ranges()
  const first = keepNumbers(mapping, ranges, facts) ?? findFree(mapping, ranges, facts)
  if (first === undefined) throw noneLeft(mapping)
  facts.taken.add(portsOf(mapping, first))
  return first
}

/** For a range, prefers host ports equal to the guest's ports, as the agent does. The firewall then needs one set element. */
function keepNumbers(mapping: Mapping, ranges: readonly PortRange[], facts: PortFacts): number | undefined {
  if (lengthOf(mapping) === 1 || facts.isRetry) return undefined
  const same = portsOf(mapping, mapping.containerPort)
  const isInside = ranges.some(({ start, end }) => same.first >= start && same.last <= end)
  return isInside && !facts.taken.hasAny(same) ? same.first : undefined
}

/** Finds free adjacent ports in the first possible range, from a random port on. */
function findFree(mapping: Mapping, ranges: readonly PortRange[], facts: PortFacts): number | undefined {
  const { taken, random } = facts
  for (const { start, end } of ranges) {
    const count = end - start + 2 - lengthOf(mapping)
    const begin = count > 0 ? random(count) : 0
    for (let at = 0; at < count; at++) {
      const first = start + ((begin + at) % count)
      if (!taken.hasAny(portsOf(mapping, first))) return first
    }
  }
  return undefined
}

function noneLeft(mapping: Mapping): BerthError {
  const wanted = lengthOf(mapping) === 1 ? 'port' : `range of ${lengthOf(mapping)} ports`
  const message = `the host has no free ${mapping.protocol} ${wanted}: containers of the fleet use them; enlarge nat4_port_range of the host`
  return new BerthError('exhausted', 'resource_exhausted', message)
}
