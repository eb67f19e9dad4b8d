import { addressIn, addressOf } from './element-index.js'
import type { ElementChange } from './plan-guest.js'

export interface MappedFlow {
  readonly protocol: 'tcp' | 'udp'
  readonly hostPort: number
}

/** Flows that a change of elements leaves behind. */
export interface StaleFlows {
  /** Guests' addresses that lost their owner. */
  readonly addresses: readonly string[]
  /** Mappings that led elsewhere, to the address given. */
  readonly mappings: readonly (MappedFlow & { readonly ipv4: string })[]
  /** Mappings that are new: a client that keeps sending datagrams would stay with what was there before. */
  readonly newDatagramPorts: readonly number[]
}

/**
 * @param targetOf where a port led before the change
 */
export function findStaleFlows(
  change: ElementChange,
  targetOf: (port: string) => string | undefined,
): StaleFlows {
  const addresses = new Set(change.removeGuests.map(addressIn))
  return {
    addresses: [...addresses],
    mappings: change.removePorts
      .map((port) => ({ ...flowOf(port), ipv4: addressOf(targetOf(port) ?? '') }))
      .filter(({ ipv4 }) => ipv4 !== '' && !addresses.has(ipv4)),
    newDatagramPorts: [...change.addPorts]
      .filter(([port, target]) => targetOf(port) !== target)
      .map(([port]) => flowOf(port))
      .flatMap(({ protocol, hostPort }) => (protocol === 'udp' ? [hostPort] : [])),
  }
}

/** All of several changes', each once. */
export function mergeStaleFlows(all: readonly StaleFlows[]): StaleFlows {
  const mappings = all.flatMap((stale) => stale.mappings)
  const byFlow = new Map(mappings.map((m) => [`${m.protocol} ${m.hostPort} ${m.ipv4}`, m]))
  return {
    addresses: [...new Set(all.flatMap((stale) => stale.addresses))],
    mappings: [...byFlow.values()],
    newDatagramPorts: [...new Set(all.flatMap((stale) => stale.newDatagramPorts))],
  }
}

function flowOf(port: string): MappedFlow {
  const [protocol, hostPort] = port.split(' . ')
  return { protocol: protocol === '17' ? 'udp' : 'tcp', hostPort: Number(hostPort) }
}
