import { forgetFlows, type FlowFilter } from '../../host/conntrack.js'
import type { MappedFlows } from './mapped-flows.js'
import { leadAstray, mergeStaleFlows, type StaleFlows } from './plan-purge.js'

/** What came before there was a mapping is the host's own: what a mapping has led to a guest already stays. */
function toHost(address: string): Pick<FlowFilter, 'address' | 'is' | 'asked'> {
  return { address, is: 'answerer', asked: address }
}

/** Beyond this many rows of new ports all datagram flows to the host are forgotten: they come back with their next packet. */
const maxSingle = 16

/** What is to be forgotten of a change's stale flows, on a host with these addresses. */
export function listFilters(flows: StaleFlows, hostAddresses: readonly string[]): FlowFilter[] {
  const { addresses, publicAddresses, mappings, newDatagrams } = flows
  return [
    ...addresses.flatMap((address) => at(address, 'opener', 'answerer')),
    ...publicAddresses.flatMap((address) => at(address, 'asked', 'answered')),
    ...mappings.map((mapping): FlowFilter => ({
      ...{ address: mapping.target, is: 'answerer', ...portsOf(mapping) },
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
  if (mappings.length > maxSingle)
    return hostAddresses.map((address) => ({ ...toHost(address), protocol: 'udp' }))
  return mappings.flatMap((mapping) =>
    listAsked(mapping, hostAddresses).map((address) => ({ ...toHost(address), ...portsOf(mapping) })),
  )
}

/** Host addresses that a mapping answers on: IPv4 leads to IPv4, IPv6 to IPv6. */
function listAsked({ hostIp, target }: MappedFlows, hostAddresses: readonly string[]): string[] {
  if (hostIp !== '') return [hostIp]
  return hostAddresses.filter((address) => address.includes(':') === target.includes(':'))
}

/**
 * Stale flows from the change that made them stale until they are forgotten, whatever fails between. Purges
 * run one at a time; one takes all that has come together meanwhile.
 */
export class StaleFlowQueue {
  readonly #waiting = new Set<StaleFlows>()
  #turn: Promise<unknown> = Promise.resolve()

  constructor(private readonly readHostAddresses: () => readonly string[]) {}

  add(stale: StaleFlows): void {
    if (Object.values(stale).some((list: readonly unknown[]) => list.length > 0)) this.#waiting.add(stale)
  }

  /** Would a client of one of these mappings be led to another guest by a flow that waits to be forgotten? */
  leadsAstray(mappings: readonly MappedFlows[]): boolean {
    return [...this.#waiting].some((stale) => leadAstray(stale, mappings))
  }

  /**
   * Returns once what was added before has been forgotten. It is called after the elements are gone, or new flows would
   * take the old ones' place.
   * @throws {CommandError} what would not go is tried again at the next call
   */
  purge(): Promise<void> {
    const turn = this.#turn.then(() => this.#purge())
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  async #purge(): Promise<void> {
    const taken = [...this.#waiting]
    if (taken.length === 0) return
    await forgetFlows(listFilters(mergeStaleFlows(taken), this.readHostAddresses()))
    for (const stale of taken) this.#waiting.delete(stale)
  }
}
