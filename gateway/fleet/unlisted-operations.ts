import type { Logger } from 'pino'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { BerthError } from '../../shared/errors.js'
import { uuidPattern } from '../../shared/guest-rules.js'
import type { OperationView } from './contract.js'
import type { HostState } from './host-state.js'
import type { HostWatcher } from './host-watcher.js'
import { isSamePast, ownerFirst } from './reported-operations.js'
import type { FleetState } from './view.js'
import type { WatchedHosts } from './watched-hosts.js'

interface UnlistedParts {
  readonly view: FleetState
  readonly log: Logger
  readonly watched: WatchedHosts
}

const operationId = new RegExp(uuidPattern)
/** Maximum number of concurrent searches. Each search calls all agents. */
const maxSearches = 16

/** Searches the journals of the agents for operations that are too old for the fleet view. */
export class UnlistedOperations {
  readonly #searches = new KeyedSingleFlight<string, OperationView | undefined>()

  constructor(private readonly parts: UnlistedParts) {}

  /**
   * Asks all connected hosts for an operation. `undefined`: no connected host has it. An operation that several hosts
   * claim is ignored, because an agent could lie.
   * @throws {BerthError} `rate_limited`
   */
  async find(id: string): Promise<OperationView | undefined> {
    // All ids of operations match this pattern. For any other text, no host is asked.
    if (!operationId.test(id)) return undefined
    if (!this.#searches.has(id) && this.#searches.keys.length >= maxSearches)
      throw new BerthError('exhausted', 'rate_limited', 'too many old tasks are requested: try again later')
    return this.#searches.run(id, () => this.#askAll(id))
  }

  async #askAll(id: string): Promise<OperationView | undefined> {
    const answers = await Promise.all(this.parts.watched.connected().map((watcher) => this.#ask(watcher, id)))
    const found = answers.flatMap((answer) => answer ?? [])
    const [first, ...others] = found
    // While a guest moves, both hosts have its ended operations for a short time.
    const isOne = first !== undefined && others.every((other) => isSamePast(first.operation, other.operation))
    if (first && !isOne) this.#refuseAll(found, id)
    // The operation can have appeared in the fleet view in the meantime.
    const { view } = this.parts
    const owner = ownerFirst(found, (one) => [view.findState(one.hostId), one])
    return view.findOperation(id) ?? (isOne ? owner : undefined)
  }

  async #ask({ host, client }: HostWatcher, id: string): Promise<OperationView | undefined> {
    try {
      const { operation } = await client.operations.getOperation({ id })
      return operation && this.#check(host, operation, id)
    } catch (error) {
      if (!(error instanceof BerthError && error.code === 'not_found'))
        this.parts.log.debug(
          { host: host.record.id, operation: id, error },
          'could not request an operation from a host',
        )
      return undefined
    }
  }

  #check(host: HostState, operation: Operation, id: string): OperationView | undefined {
    if (operation.id === id) return this.parts.view.checkOperation(host, operation)
    host.refused = 'the agent answered with another operation than the requested one'
    return undefined
  }

  #refuseAll(found: readonly OperationView[], id: string): void {
    const hosts = found.map(({ hostId }) => hostId)
    this.parts.log.warn({ operation: id, hosts }, 'several hosts have an operation with the same id')
    for (const hostId of hosts) {
      const host = this.parts.view.findState(hostId)
      if (host) host.refused = `operation ${id} is claimed by the hosts ${hosts.slice(0, 20).join(', ')}`
    }
  }
}
