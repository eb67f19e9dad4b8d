import {
  purgeAddress,
  purgeDatagrams,
  purgeMapping,
  purgePublicAddress,
  readTrackedAddresses,
} from '../host/conntrack.js'
import { leadAstray, mergeStaleFlows, type MappedFlows, type StaleFlows } from './plan-purge.js'

/** Beyond this it is asked first which have flows at all: each purge walks the kernel's whole table. */
const maxSingle = 16

/**
 * Forgets flows that a change of elements left behind. To be called after the elements are gone, or new flows
 * would take the old ones' place.
 * @returns what could not be forgotten, for another time; `undefined` when nothing is left
 */
export async function purgeStaleFlows(
  flows: StaleFlows,
  hostAddresses: readonly string[],
): Promise<StaleFlows | undefined> {
  const { addresses, mappings } = await withFlows(flows)
  const left = {
    addresses: await listLeft(addresses, purgeAddress),
    publicAddresses: await listLeft(flows.publicAddresses, purgePublicAddress),
    mappings: await listLeft(mappings, (mapping) => purgeMapping(mapping, mapping.target)),
    newDatagrams: await purgeNewDatagrams(flows.newDatagrams, hostAddresses),
  }
  return Object.values(left).some((list: readonly unknown[]) => list.length > 0) ? left : undefined
}

/** Very many: all datagram flows to the host are forgotten at once; they come back with their next packet. */
async function purgeNewDatagrams(
  mappings: readonly MappedFlows[],
  hostAddresses: readonly string[],
): Promise<readonly MappedFlows[]> {
  const purgeOf = async (mapping?: MappedFlows): Promise<boolean> => {
    const asked = mapping ? listAsked(mapping, hostAddresses) : hostAddresses
    return (await listLeft(asked, (address) => purgeDatagrams(address, mapping))).length === 0
  }
  if (mappings.length > maxSingle) return (await purgeOf()) ? [] : mappings
  return listLeft(mappings, purgeOf)
}

/** Host addresses that a mapping answers on: IPv4 leads to IPv4, IPv6 to IPv6. */
export function listAsked({ hostIp, target }: MappedFlows, hostAddresses: readonly string[]): string[] {
  if (hostIp !== '') return [hostIp]
  return hostAddresses.filter((address) => address.includes(':') === target.includes(':'))
}

/** Those of which `purge` says that it could not forget all. */
async function listLeft<T>(items: readonly T[], purge: (item: T) => Promise<boolean>): Promise<T[]> {
  const left: T[] = []
  for (const item of items) if (!(await purge(item))) left.push(item)
  return left
}

/** IPv6 is not asked for: a guest has few addresses of it. */
async function withFlows({
  addresses,
  mappings,
}: StaleFlows): Promise<Pick<StaleFlows, 'addresses' | 'mappings'>> {
  if (addresses.length + mappings.length <= maxSingle) return { addresses, mappings }
  const tracked = await readTrackedAddresses()
  const isTracked = (address: string): boolean => address.includes(':') || tracked.has(address)
  return {
    addresses: addresses.filter(isTracked),
    mappings: mappings.filter(({ target }) => isTracked(target)),
  }
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
    return [...this.#waiting].some((stale) => mappings.some((mapping) => leadAstray(stale, mapping)))
  }

  /** Returns once what was added before has been purged; what would not go in time is tried at the next call. */
  purge(): Promise<void> {
    const turn = this.#turn.then(() => this.#purge())
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  async #purge(): Promise<void> {
    const taken = [...this.#waiting]
    if (taken.length === 0) return
    const left = await purgeStaleFlows(mergeStaleFlows(taken), this.readHostAddresses())
    for (const stale of taken) this.#waiting.delete(stale)
    if (left) this.#waiting.add(left)
  }
}
