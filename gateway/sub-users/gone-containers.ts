import type { Logger } from 'pino'
import { Throttle } from '../../shared/async/throttle.js'
import { Mutex } from '../../shared/async/mutex.js'
import type { GuestRegistry } from '../fleet/placement/guest-registry.js'
import type { SubUsers } from './sub-users.js'

/** Rounds are at least this far apart, as guests come and go in numbers. */
const pauseMs = 2000

export interface GoneContainersOptions {
  readonly registry: GuestRegistry
  readonly subUsers: Pick<SubUsers, 'dropContainers'>
  readonly log: Logger
}

/**
 * Takes containers that were deleted from sub-users, soon after any change of the fleet's guests, and once the store is
 * there. A round that is lost does no harm: nobody gets the uuid of a deleted container. Make it before `store.start()`.
 */
export class GoneContainers {
  readonly #mutex = new Mutex()
  readonly #rounds = new Throttle(() => this.#mutex.run(() => this.#round()), { intervalMs: pauseMs })

  constructor(private readonly options: GoneContainersOptions) {
    options.registry.onChange(() => this.#rounds.request())
  }

  async stop(): Promise<void> {
    this.#rounds.close()
    await this.#mutex.settled()
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
