import { Mutex } from '../../../../shared/async/mutex.js'
import { forgetFlows, type FlowFilter } from '../../../host/net/conntrack.js'
import type { MappedFlows } from './mapped-flows.js'
import { leadAstray, mergeStaleFlows, type StaleFlows } from './plan-purge.js'

/** Matches flows to this address that the host itself answers, because they began before their port was mapped. */
function toHost(address: string): Pick<FlowFilter, 'address' | 'is' | 'asked'> {
  return { address, is: 'answerer', asked: address }
}

/**
 * Maximum number of new port ranges whose flows are purged separately. If there are more, all UDP flows to the host are
 * purged. A purged flow that is still in use is created again by its next packet.
 */
const maxSingle = 16

/** Plans filters that match the stale flows in conntrack. @param hostAddresses all addresses of this host */
export function listFilters(flows: StaleFlows, hostAddresses: readonly string[]): FlowFilter[] {
  const { addresses, publicAddresses, mappings, newDatagrams } = flows
  return [
    ...addresses.flatMap((address) => at(address, 'opener', 'answerer')),
    ...publicAddresses.flatMap((address) => at(address, 'asked', 'answered')),
    ...mappings.map((mapping): FlowFilter => ({
      address: mapping.target,
      is: 'answerer',
      ...portsOf(mapping),
      ...(mapping.hostIp === '' ? {} : { asked: mapping.hostIp }),
    })),
    ...listDatagrams(newDatagrams, hostAddresses),
  ]
}

function at(address: string, ...places: FlowFilter['is'][]): FlowFilter[] {
  return places.map((is) => ({ address, is }))
}

function portsOf({ protocol, hostPort, hostPortEnd }: MappedFlows): Pick<FlowFilter, 'protocol' | 'ports'> {
  return { protocol, ports: [hostPort, hostPortEnd] }
}

function listDatagrams(mappings: readonly MappedFlows[], hostAddresses: readonly string[]): FlowFilter[] {
  if (mappings.length > maxSingle) return hostAddresses.map((address) => ({ ...toHost(address), protocol: 'udp' }))
  return mappings.flatMap((mapping) =>
    listAsked(mapping, hostAddresses).map((address) => ({ ...toHost(address), ...portsOf(mapping) })),
  )
}

/** Lists the host addresses at which clients reach a mapping: IPv4 addresses if its target is IPv4, otherwise IPv6. */
function listAsked({ hostIp, target }: MappedFlows, hostAddresses: readonly string[]): string[] {
  if (hostIp !== '') return [hostIp]
  return hostAddresses.filter((address) => address.includes(':') === target.includes(':'))
}

/**
 * A queue of stale flows: outdated entries of the connection tracking table. Flows stay queued if their purge fails.
 * Purges run one at a time. Each purge includes all flows that were added before it began.
 */
export class StaleFlowQueue {
  readonly #waiting = new Set<StaleFlows>()
  readonly #mutex = new Mutex()

  constructor(private readonly readHostAddresses: () => readonly string[]) {}

  add(stale: StaleFlows): void {
    if (Object.values(stale).some((list: readonly unknown[]) => list.length > 0)) this.#waiting.add(stale)
  }

  /** True if packets to one of these mappings could match a queued flow, and so reach the wrong guest. */
  leadsAstray(mappings: readonly MappedFlows[]): boolean {
    return [...this.#waiting].some((stale) => leadAstray(stale, mappings))
  }

  /**
   * Purges all queued flows. Call it after nft has deleted the elements, because packets could recreate the flows
   * before that.
   * @throws {CommandError} if a flow could not be purged; the next call tries again
   */
  purge(): Promise<void> {
    return this.#mutex.run(() => this.#purge())
  }

  async #purge(): Promise<void> {
    const taken = [...this.#waiting]
    if (taken.length === 0) return
    await forgetFlows(listFilters(mergeStaleFlows(taken), this.readHostAddresses()))
    for (const stale of taken) this.#waiting.delete(stale)
  }
}
