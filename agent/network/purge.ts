import { purgeAddress, purgeDatagrams, purgeMapping } from '../host/conntrack.js'
import type { StaleFlows } from './plan-purge.js'

/** Beyond this all datagram flows to the host are forgotten at once; they come back with their next packet. */
const maxSinglePorts = 16

/** To be called after the elements are gone, or new flows would take the old ones' place. */
export async function purgeStaleFlows(flows: StaleFlows, hostAddresses: readonly string[]): Promise<void> {
  const { addresses, mappings, newDatagramPorts } = flows
  for (const address of addresses) await purgeAddress(address)
  for (const mapping of mappings) await purgeMapping(mapping, mapping.ipv4)
  const ports = newDatagramPorts.length > maxSinglePorts ? [undefined] : newDatagramPorts
  for (const port of ports) for (const address of hostAddresses) await purgeDatagrams(address, port)
}
