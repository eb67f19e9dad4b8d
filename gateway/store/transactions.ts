import { setTimeout as delay } from 'node:timers/promises'
import { WatchError } from 'redis'
import { Mutex } from '../../shared/async/mutex.js'
import { storeUnavailable, toStoreError, type StoreClient } from './connection.js'

const maxAttempts = 25

/** Runs transactions one at a time, because WATCH applies to the whole connection. */
export class Transactions<Connection extends { readonly exclusive: StoreClient }> {
  readonly #mutex = new Mutex()

  /** @param connection returns the present connection. undefined: the store is down */
  constructor(private readonly connection: () => Connection | undefined) {}

  /**
   * Runs `commands`, and repeats them if a watched key has changed before the end of the transaction.
   * @returns the result of `commands`, and the connection on which they ran
   * @throws {BerthError} `store_unavailable`, or the error of `commands`
   */
  run<T>(
    step: string,
    commands: (client: StoreClient) => Promise<T>,
  ): Promise<{ readonly result: T; readonly connection: Connection }> {
    return this.#mutex.run(() => this.#attempt(step, commands))
  }

  async #attempt<T>(step: string, commands: (client: StoreClient) => Promise<T>) {
    for (let attempt = 1; ; attempt++) {
      const connection = this.connection()
      if (!connection) throw storeUnavailable(step)
      const { exclusive: client } = connection
      try {
        return { result: await commands(client), connection }
      } catch (cause) {
        if (cause instanceof WatchError && attempt < maxAttempts) {
          await delay(Math.random() * attempt) // random, so that the transactions of two gateways do not collide again
          continue
        }
        if (client.isReady) await client.unwatch().catch(() => undefined)
        throw toStoreError(cause, step)
      }
    }
  }
}
