import { hash } from 'node:crypto'
import { sourceOf } from '../../shared/source-address.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Store } from '../store/store.js'

const rememberedMs = 30 * 86_400_000
/** Addresses of each account; beyond it those used longest ago are forgotten. */
const maxPlaces = 8

/**
 * Remembers the addresses of recent logins of each account. Logins from there go ahead of those of strangers. It is
 * read by name, so that the same work is done for names without an account.
 */
export class KnownPlaces {
  constructor(private readonly store: Store) {}

  /** @throws {BerthError} `store_unavailable` */
  async has(username: string, address: string): Promise<boolean> {
    const usedAtMs = await this.store.run('look up a place', (client) =>
      client.zScore(this.#key(username), sourceOf(address)),
    )
    return usedAtMs !== null && usedAtMs > steadyClock.now() - rememberedMs
  }

  /** After a complete login. @throws {BerthError} `store_unavailable` */
  async add(username: string, address: string): Promise<void> {
    const key = this.#key(username)
    await this.store.run('remember a place', (client) =>
      client
        .multi()
        .zAdd(key, { score: steadyClock.now(), value: sourceOf(address) })
        .zRemRangeByRank(key, 0, -maxPlaces - 1)
        .pExpire(key, rememberedMs)
        .exec(),
    )
  }

  /** User names are digested, since people type passwords there too. */
  #key(username: string): string {
    return this.store.key('login-places', hash('sha256', username.toLowerCase(), 'base64url').slice(0, 22))
  }
}
