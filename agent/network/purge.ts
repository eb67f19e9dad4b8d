import { purgeAddress, purgeDatagrams, purgeMapping, readTrackedAddresses } from '../host/conntrack.js'
import type { StaleFlows } from './plan-purge.js'

/** Beyond this it is asked first which have flows at all: each purge walks the kernel's whole table. */
const maxSingle = 16

/** To be called after the elements are gone, or new flows would take the old ones' place. */
export async function purgeStaleFlows(flows: StaleFlows, hostAddresses: readonly string[]): Promise<void> {
  const { addresses, mappings } = await withFlows(flows)
  for (const address of addresses) await purgeAddress(address)
  for (const mapping of mappings) await purgeMapping(mapping, mapping.ipv4)
  // Very many: all datagram flows to the host are forgotten at once; they come back with their next packet.
  const { newDatagramPorts: ports } = flows
  for (const port of ports.length > maxSingle ? [undefined] : ports)
    for (const address of hostAddresses) await purgeDatagrams(address, port)
}

async function withFlows({
  addresses,
  mappings,
}: StaleFlows): Promise<Pick<StaleFlows, 'addresses' | 'mappings'>> {
  if (addresses.length + mappings.length <= maxSingle) return { addresses, mappings }
  const tracked = await readTrackedAddresses()
  return {
    addresses: addresses.filter((address) => tracked.has(address)),
    mappings: mappings.filter(({ ipv4 }) => tracked.has(ipv4)),
  }
}
