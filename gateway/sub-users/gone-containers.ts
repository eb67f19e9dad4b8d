import type { Logger } from 'pino'
import type { GuestRegistry } from '../fleet/guest-registry.js'
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
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #stopped = false

  constructor(private readonly options: GoneContainersOptions) {
    options.registry.onChange(() => this.#arm())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #arm(): void {
    if (this.#stopped) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#running = (this.#running ?? Promise.resolve()).then(() => this.#round())
    }, pauseMs).unref()
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
