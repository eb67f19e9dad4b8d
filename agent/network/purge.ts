import { purgeAddress, purgeDatagrams, purgeMapping, readTrackedAddresses } from '../host/conntrack.js'
import { mergeStaleFlows, type StaleFlows } from './plan-purge.js'

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
    mappings: await listLeft(mappings, (mapping) => purgeMapping(mapping, mapping.ipv4)),
    newDatagramPorts: await purgeNewPorts(flows.newDatagramPorts, hostAddresses),
  }
  return Object.values(left).some((list) => list.length > 0) ? left : undefined
}

/** Very many: all datagram flows to the host are forgotten at once; they come back with their next packet. */
async function purgeNewPorts(
  ports: readonly number[],
  hostAddresses: readonly string[],
): Promise<readonly number[]> {
  const purgePort = async (port?: number): Promise<boolean> =>
    (await listLeft(hostAddresses, (address) => purgeDatagrams(address, port))).length === 0
  if (ports.length > maxSingle) return (await purgePort()) ? [] : ports
  return listLeft(ports, purgePort)
}

/** Those of which `purge` says that it could not forget all. */
async function listLeft<T>(items: readonly T[], purge: (item: T) => Promise<boolean>): Promise<T[]> {
  const left: T[] = []
  for (const item of items) if (!(await purge(item))) left.push(item)
  return left
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
