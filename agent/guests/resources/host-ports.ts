import { BerthError, conflict, invalidField } from '../../../shared/errors.js'
import type { CheckedMapping } from '../../../shared/port-mapping-rules.js'
import type { AgentConfig } from '../../config.js'
import type { HostFacts } from '../../network/addresses/host-facts.js'
import { readNatPorts } from '../../network/addresses/address-tables.js'
import { PortChoice, type PortSpan } from '../../network/ports.js'
import type { GuestStore } from '../record/guest-store.js'
import type { PortMapping } from '../record/record.js'

export interface MappingOrder {
  readonly wanted: readonly CheckedMapping[]
  /** Ports on which programs of the host listen, from `readListeningPorts`. */
  readonly listening: ReadonlySet<string>
  /** True if the guest has an IPv6 address that ports can be mapped to. */
  readonly hasIpv6: boolean
  /** The guest's other mappings. Default: no mappings. */
  readonly others?: readonly PortMapping[]
  /** The existing mapping that `wanted` replaces. */
  readonly replaced?: PortMapping
}

export interface HostPortsParts {
  readonly store: GuestStore
  readonly config: Pick<AgentConfig['network'], 'nat_ports'>
  readonly facts: Pick<HostFacts, 'listAddresses'>
}

export class HostPorts {
  /**
   * Ports that a change in progress has removed from a guest's record. They stay reserved until the change is applied
   * on the host. Until then, the change can be rolled back, and packets to the ports can still reach that guest.
   */
  readonly #held = new Set<PortSpan>()

  constructor(private readonly parts: HostPortsParts) {}

  /**
   * Reserves ports that a change in progress has freed, so that no other guest gets them.
   * @returns a function that releases the ports and can be called repeatedly
   */
  hold(span: PortSpan): () => void {
    this.#held.add(span)
    return () => void this.#held.delete(span)
  }

  /**
   * Chooses and checks host ports for mappings. Must be called inside a transaction of the journal.
   * @throws {BerthError} `port_conflict`, `resource_exhausted`, `invalid_field`, `address_in_use`
   */
  reserve(order: MappingOrder): PortMapping[] {
    const { wanted, listening, hasIpv6 } = order
    checkPortCount(order, this.parts.config.nat_ports.per_guest)
    for (const hostIp of new Set(wanted.map((mapping) => mapping.hostIp))) {
      this.checkHostIp(hostIp)
      if (hostIp.includes(':') && !hasIpv6) throw invalidField('host_ip', 'host_ip: the container has no IPv6 address')
    }
    return chooseMappings(this.openChoice(listening), wanted)
  }

  /** Returns an object that chooses free ports. Ports that `hold` reserves do not count as free. */
  openChoice(listening: ReadonlySet<string>): PortChoice {
    const { store, config } = this.parts
    const { db } = store.changes
    return new PortChoice(db, readNatPorts(db, config.nat_ports), listening).exclude(this.#held)
  }

  /**
   * Checks that the host has the address and that no guest has reserved it. An empty address stands for all addresses.
   * @throws {BerthError} `invalid_field`, `address_in_use`
   */
  checkHostIp(hostIp: string): void {
    const { store, facts } = this.parts
    if (hostIp === '') return
    const pooled = store.changes.db.prepare('SELECT 1 FROM ipv4_pool WHERE address = ?').get(hostIp)
    if (pooled || store.hasAddress(hostIp))
      throw conflict('address_in_use', `host_ip: ${hostIp} is reserved for containers: use an address of the host`)
    if (!facts.listAddresses(hostIp.includes(':') ? 'ipv6' : 'ipv4').includes(hostIp))
      throw invalidField('host_ip', 'host_ip: must be an address of the host')
  }

  /** True if `checkHostIp` accepts the address. */
  hasHostIp(hostIp: string): boolean {
    try {
      this.checkHostIp(hostIp)
      return true
    } catch {
      return false
    }
  }
}

/** Enforces the limit of ports only for changes that add ports, because a guest can already exceed a lowered limit. */
function checkPortCount({ wanted, others = [], replaced }: MappingOrder, limit: number): void {
  const asked = sum(wanted.map(({ length }) => length))
  const grows = asked > (replaced ? lengthOf(replaced) : 0)
  if (grows && asked + sum(others.map(lengthOf)) > limit)
    throw conflict('resource_exhausted', `a container can have at most ${limit} host ports in all its mappings`)
}

/**
 * Checks that the existing mappings and a new one together have at most `limit` ports, the maximum of the caller.
 * @throws {BerthError} `quota_exceeded`
 */
export function refuseMorePorts(
  mappings: readonly PortMapping[],
  { length }: Pick<CheckedMapping, 'length'>,
  limit: number,
): void {
  if (length + sum(mappings.map(lengthOf)) <= limit) return
  const message = `this caller may map at most ${limit} ports of the container`
  throw new BerthError('forbidden', 'quota_exceeded', message)
}

function lengthOf({ hostPort, hostPortEnd }: PortMapping): number {
  return hostPortEnd - hostPort + 1
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

/** Chooses host ports. Requested ports are reserved first, so that no other mapping gets them. */
function chooseMappings(choice: PortChoice, wanted: readonly CheckedMapping[]): PortMapping[] {
  for (const mapping of wanted) if (mapping.hostPort !== 0) choice.take(spanOf(mapping))
  const settled = wanted.map((mapping) => keepNumbers(choice, mapping))
  const free = pickAlike(
    choice,
    settled.filter(({ hostPort }) => hostPort === 0),
  )
  return settled.map((mapping) => mappingAt(mapping, mapping.hostPort || free.get(likeness(mapping))!.pop()!))
}

/**
 * Maps a range to host ports with the guest's own numbers, if possible. The kernel then stores one nft element for the
 * range instead of one for each port.
 */
function keepNumbers(choice: PortChoice, wanted: CheckedMapping): CheckedMapping {
  const { hostPort, containerPort, containerPortEnd, length } = wanted
  if (hostPort !== 0 || length === 1 || containerPort === 0) return wanted
  const same = { ...wanted, hostPort: containerPort, hostPortEnd: containerPortEnd }
  return choice.tryTake(spanOf(same)) ? same : wanted
}

/** Picks host ports. One search serves all mappings with the same protocol, host address and number of ports. */
function pickAlike(choice: PortChoice, wanted: readonly CheckedMapping[]): Map<string, number[]> {
  const free = new Map<string, number[]>()
  for (const mapping of wanted) {
    const like = likeness(mapping)
    if (free.has(like)) continue
    const count = wanted.filter((other) => likeness(other) === like).length
    free.set(like, choice.pick({ ...mapping, count }))
  }
  return free
}

function likeness({ protocol, hostIp, length }: CheckedMapping): string {
  return `${protocol} ${hostIp} ${length}`
}

export function spanOf({ protocol, hostIp, hostPort, hostPortEnd }: CheckedMapping | PortMapping): PortSpan {
  return { protocol, hostIp, first: hostPort, last: hostPortEnd }
}

/** Returns the mapping with this host port. A container port of 0 becomes the same number as the host port. */
export function mappingAt(wanted: CheckedMapping, hostPort: number): PortMapping {
  const containerPort = wanted.containerPort || hostPort
  return {
    protocol: wanted.protocol,
    hostIp: wanted.hostIp,
    hostPort,
    hostPortEnd: hostPort + wanted.length - 1,
    containerPort,
    containerPortEnd: containerPort + wanted.length - 1,
    description: wanted.description,
  }
}
