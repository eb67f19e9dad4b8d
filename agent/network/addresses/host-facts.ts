import {
  listIpv4Addresses,
  readDefaultRoutes,
  type DefaultRoute,
  type InterfaceIpv4,
} from '../../host/addresses.js'
import { readInterfaces } from '../../host/interfaces.js'
import { probeNeighbours } from './neighbour-probe.js'

/** What pools and scans go by of the host itself, as it is at the moment. */
export interface HostFacts {
  /** Names of all, also of the loopback and of guests'. */
  listInterfaces(): readonly string[]
  listIpv4(): readonly InterfaceIpv4[]
  readDefaultRoutes(): { readonly ipv4: DefaultRoute | undefined; readonly ipv6: DefaultRoute | undefined }
  /** @returns the MAC that answered, '' for none, by address; nothing where the interface is down */
  probe(device: string, addresses: readonly string[]): Promise<ReadonlyMap<string, string>>
}

/** Those of the agent's network namespace. */
export const kernelFacts: HostFacts = {
  listInterfaces: () => [...readInterfaces()],
  listIpv4: listIpv4Addresses,
  readDefaultRoutes,
  probe: probeNeighbours,
}
