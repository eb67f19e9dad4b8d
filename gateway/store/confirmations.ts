import { setImmediate as nextTurn } from 'node:timers/promises'
import { Mutex } from '../../shared/async/mutex.js'
import { unconfirmed, type StoreClient } from './connection.js'

export interface ConfirmationsOptions {
  /** Connection that is used for nothing else, because a WAIT delays all later commands on its connection. */
  readonly client: StoreClient
  /** Number of replicas that must have the data. */
  readonly replicas: number
  /** Redis channel without subscribers. A PUBLISH to it precedes each WAIT. */
  readonly channel: string
}

/** Time limit in ms for confirmations of replicas. It is shorter than the time limit for answers of the master. */
export const confirmTimeoutMs = 1000

/**
 * Waits until replicas have all data of the master. Calls in one turn of the event loop share one WAIT, because several
 * WAITs on a connection run one after another.
 *
 * WAIT only covers earlier commands of its own connection. A PUBLISH on this connection is therefore sent first. It is
 * replicated after the earlier writes of all connections, and is not written to the append-only file.
 * Source: https://redis.io/docs/latest/commands/wait/
 */
export class Confirmations {
  readonly #rounds = new Mutex()
  #next: Promise<void> | undefined
  /** Number of times that too few replicas confirmed the data in time. */
  failures = 0

  constructor(private readonly options: ConfirmationsOptions) {}

  /**
   * Resolves when replicas have all data that the master had before this call.
   * @throws {BerthError} `store_unavailable` if too few replicas confirm in time
   */
  confirm(step: string): Promise<void> {
    this.#next ??= this.#rounds.run(async () => {
      await nextTurn()
      this.#next = undefined
      await this.#round()
    })
    return this.#next.catch((cause: unknown) => {
      throw unconfirmed(step, cause)
    })
  }

  async #round(): Promise<void> {
    const { client, replicas, channel } = this.options
    const [, confirmed] = await Promise.all([client.publish(channel, ''), client.wait(replicas, confirmTimeoutMs)])
    if (confirmed >= replicas) return
    this.failures++
    throw new Error(
      `only ${confirmed} of ${replicas} required Redis replicas confirmed the change within ${confirmTimeoutMs} ms`,
    )
  }
}
