import type { Logger } from 'pino'
import { Throttle } from '../../shared/async/throttle.js'
import type { GuestRegistry } from '../fleet/placement/guest-registry.js'
import type { SubUsers } from './sub-users.js'

/** Minimum time in ms between two searches for deleted containers, because many can be deleted at the same time. */
const pauseMs = 2000

export interface GoneContainersOptions {
  readonly registry: GuestRegistry
  readonly subUsers: Pick<SubUsers, 'dropContainers'>
  readonly log: Logger
}

/**
 * Removes deleted containers from sub-users, shortly after guests of the fleet have changed. A missed container is
 * harmless, because uuids are never used again. Create the object before `store.start()`.
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
      if (count > 0) log.info({ accounts: count }, 'deleted containers were removed from sub-users')
    } catch (err) {
      log.warn({ err }, 'could not remove deleted containers from sub-users; trying again later')
    }
  }
}
