import type { Logger } from 'pino'
import { Throttle } from '../../shared/async/throttle.js'
import type { GuestRegistry } from '../fleet/placement/guest-registry.js'
import type { SubUsers } from './sub-users.js'

/** Shortest time between two rounds, as guests may be created and deleted in large numbers. */
const pauseMs = 2000

export interface GoneContainersOptions {
  readonly registry: GuestRegistry
  readonly subUsers: Pick<SubUsers, 'dropContainers'>
  readonly log: Logger
}

/**
 * Removes deleted containers from sub-users, soon after any change of the fleet's guests, once the store is available.
 * A lost round is harmless, since the uuid of a deleted container is never used again. Create it before
 * `store.start()`.
 */
export class GoneContainers {
  readonly #rounds = new Throttle(() => this.#round(), { intervalMs: pauseMs })

  constructor(private readonly options: GoneContainersOptions) {
    options.registry.onChange(() => this.#rounds.request())
  }

  async stop(): Promise<void> {
    this.#rounds.close()
    await this.#rounds.settled()
  }

  async #round(): Promise<void> {
    const { registry, subUsers, log } = this.options
    try {
      const count = await subUsers.dropContainers((uuids) => registry.findGone(uuids))
      if (count > 0) log.info({ accounts: count }, 'deleted containers taken from sub-users')
    } catch (err) {
      log.warn({ err }, 'deleted containers not taken from sub-users yet')
    }
  }
}
