import { hash } from 'node:crypto'
import { sourceOf } from '../../shared/source-address.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Store } from '../store/store.js'

const rememberedMs = 30 * 86_400_000
/** Maximum number of addresses of an account. If there are more, the least recently used ones are forgotten. */
const maxPlaces = 8

/**
 * Remembers the addresses of recent logins. Logins from these addresses run before logins of strangers. The addresses
 * are stored by user name, so that a look-up takes the same time for names without an account.
 */
export class KnownPlaces {
  constructor(private readonly store: Store) {}

  /** @throws {BerthError} `store_unavailable` */
  async has(username: string, address: string): Promise<boolean> {
    const usedAtMs = await this.store.run('look up an address of earlier logins', (client) =>
      client.zScore(this.#key(username), sourceOf(address)),
    )
    return usedAtMs !== null && usedAtMs > steadyClock.now() - rememberedMs
  }

  /** Remembers the address after a complete login. @throws {BerthError} `store_unavailable` */
  async add(username: string, address: string): Promise<void> {
    const key = this.#key(username)
    await this.store.run('store the address of a login', (client) =>
      client
        .multi()
        .zAdd(key, { score: steadyClock.now(), value: sourceOf(address) })
        .zRemRangeByRank(key, 0, -maxPlaces - 1)
        .pExpire(key, rememberedMs)
        .exec(),
    )
  }

  /** Names are stored as digests, because users sometimes type a password into the field for the name. */
  #key(username: string): string {
    return this.store.key('login-places', hash('sha256', username.toLowerCase(), 'base64url').slice(0, 22))
  }
}
