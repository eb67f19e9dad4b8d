import {
  listHostAddresses,
  listIpv4Addresses,
  readDefaultRoutes,
  type DefaultRoutes,
  type InterfaceIpv4,
} from '../../host/net/addresses.js'
import { isVirtual, readInterfaces } from '../../host/net/interfaces.js'
import { findIpv6Addresses, type InterfaceIpv6 } from '../../host/net/ipv6-addresses.js'
import { formatIpv6, parseIpv6 } from './ipv6.js'
import { probeNeighbours } from './neighbour-probe.js'

/** Facts about the host that pools, mappings and scans need. Each call reads them from the host. */
export interface HostFacts {
  /** Names of all interfaces, including the loopback and guests' interfaces. */
  listInterfaces(): readonly string[]
  listIpv4(): readonly InterfaceIpv4[]
  /** Lists IPv6 addresses of all interfaces. Undefined: the kernel has no IPv6. */
  listIpv6(): readonly InterfaceIpv6[] | undefined
  /** Canonical addresses of all interfaces except the loopback. Omits IPv6 addresses that are not global. */
  listAddresses(family: 'ipv4' | 'ipv6'): readonly string[]
  /** @param isMeant returns true if routes through this interface count; default: all routes count */
  readDefaultRoutes(isMeant?: (device: string) => boolean): DefaultRoutes
  /** True if the interface has no hardware, like a bridge. Any program can create such an interface. */
  isVirtual(device: string): boolean
  /** @returns the MAC that answered for each address, or '' if none did; an empty map if the interface is down */
  probe(device: string, addresses: readonly string[]): Promise<ReadonlyMap<string, string>>
}

/** Reads facts from the kernel, about the agent's network namespace. */
export const kernelFacts: HostFacts = {
  listInterfaces: () => [...readInterfaces()],
  listIpv4: listIpv4Addresses,
  listIpv6: findIpv6Addresses,
  listAddresses: listHostAddresses,
  readDefaultRoutes,
  isVirtual: (device) => isVirtual(device),
  probe: probeNeighbours,
}

/**
 * Reads the default routes through uplinks. Uplinks are the configured interfaces; by default all interfaces that have
 * hardware. Virtual interfaces (veth, bridge, tunnel) count only if they are configured.
 */
export function readUplinks(
  facts: Pick<HostFacts, 'readDefaultRoutes' | 'isVirtual'>,
  uplinks: readonly string[],
): DefaultRoutes {
  return facts.readDefaultRoutes((device) => (uplinks.length > 0 ? uplinks.includes(device) : !facts.isVirtual(device)))
}

/** Returns why the host cannot use IPv6. '': the router of the default route answers, or the route names no router. */
export async function findIpv6Hindrance(facts: Pick<HostFacts, 'readDefaultRoutes' | 'probe'>): Promise<string> {
  const route = facts.readDefaultRoutes().ipv6
  if (!route) return 'the host has no IPv6 default route'
  const gateway = parseIpv6(route.gateway)
  if (gateway === undefined) return '' // a point-to-point link needs no gateway address
  const address = formatIpv6(gateway)
  const answers = await facts.probe(route.interface, [address])
  return answers.get(address) ? '' : `the router ${address} on ${route.interface} does not answer`
}
