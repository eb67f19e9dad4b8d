import {
  listHostAddresses,
  listIpv4Addresses,
  readDefaultRoutes,
  type DefaultRoutes,
  type InterfaceIpv4,
} from '../../host/addresses.js'
import { isVirtual, readInterfaces } from '../../host/interfaces.js'
import { findIpv6Addresses, type InterfaceIpv6 } from '../../host/ipv6-addresses.js'
import { probeNeighbours } from './neighbour-probe.js'

/** What pools, mappings and scans go by of the host itself, as it is at the moment. */
export interface HostFacts {
  /** Names of all, also of the loopback and of guests'. */
  listInterfaces(): readonly string[]
  listIpv4(): readonly InterfaceIpv4[]
  /** `undefined` where the kernel has no IPv6. */
  listIpv6(): readonly InterfaceIpv6[] | undefined
  /** Canonical, of all interfaces but the loopback; of IPv6 the global ones. */
  listAddresses(family: 'ipv4' | 'ipv6'): readonly string[]
  /** @param isMeant which interfaces count; default: all */
  readDefaultRoutes(isMeant?: (device: string) => boolean): DefaultRoutes
  /** It is of no hardware: any program makes such an interface. */
  isVirtual(device: string): boolean
  /** @returns the MAC that answered, '' for none, by address; nothing where the interface is down */
  probe(device: string, addresses: readonly string[]): Promise<ReadonlyMap<string, string>>
}

/** Those of the agent's network namespace. */
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
 * The ways out by interfaces that the host is meant to be reached at: those that are configured, or else those of its
 * hardware. What other programs make (a veth, a bridge, a tunnel) is never found by itself.
 */
export function readUplinks(
  facts: Pick<HostFacts, 'readDefaultRoutes' | 'isVirtual'>,
  uplinks: readonly string[],
): DefaultRoutes {
  return facts.readDefaultRoutes((device) =>
    uplinks.length > 0 ? uplinks.includes(device) : !facts.isVirtual(device),
  )
}
