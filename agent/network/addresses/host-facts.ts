import {
  listIpv4Addresses,
  readDefaultRoutes,
  type DefaultRoutes,
  type InterfaceIpv4,
} from '../../host/addresses.js'
import { isVirtual, readInterfaces } from '../../host/interfaces.js'
import { probeNeighbours } from './neighbour-probe.js'

/** What pools and scans go by of the host itself, as it is at the moment. */
export interface HostFacts {
  /** Names of all, also of the loopback and of guests'. */
  listInterfaces(): readonly string[]
  listIpv4(): readonly InterfaceIpv4[]
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
