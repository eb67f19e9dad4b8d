import type { Store } from '../store/store.js'
import type { Account } from './account-record.js'
import { createToken, digestToken, isToken } from './session-secret.js'

/** Time limit in ms for entering the code after the password. */
export const pendingMs = 5 * 60_000
/** Number of wrong codes after which the password is required again. */
const maxTries = 5

/** A login with a correct password that still needs a code. */
export interface PendingLogin {
  readonly digest: string
  readonly accountId: number
  readonly generation: number
  readonly keep: boolean
}

/** Logins that wait for a code. They are stored under the digest of their token. */
export class PendingLogins {
  constructor(private readonly store: Store) {}

  /** Stores a pending login. @returns its token @throws {BerthError} `store_unavailable` */
  async begin({ id, generation }: Account, keep: boolean): Promise<string> {
    const token = createToken()
    const pending: Omit<PendingLogin, 'digest'> = { accountId: id, generation, keep }
    await this.store.run('start a login', (client) =>
      client.set(this.#key(digestToken(token)), JSON.stringify(pending), {
        expiration: { type: 'PX', value: pendingMs },
      }),
    )
    return token
  }

  /** Finds a pending login and counts an attempt. `undefined`: no such login exists, or it had too many attempts. */
  async try(token: string): Promise<PendingLogin | undefined> {
    if (!isToken(token)) return undefined
    const digest = digestToken(token)
    const [text, tries] = await this.store.run('look up a login', async (client) => {
      const found = await client.get(this.#key(digest))
      // Attempts with unknown tokens are not counted, so that they use no memory.
      if (found === null) return [null, 0]
      const multi = client.multi().incr(this.#tries(digest))
      const [count] = await multi.pExpire(this.#tries(digest), pendingMs, 'NX').exec()
      return [found, Number(count)]
    })
    if (text === null || tries > maxTries) return undefined
    return { ...(JSON.parse(text) as Omit<PendingLogin, 'digest'>), digest }
  }

  /** Finds a pending login without counting an attempt. @throws {BerthError} `store_unavailable` */
  async peek(token: string): Promise<PendingLogin | undefined> {
    if (!isToken(token)) return undefined
    const digest = digestToken(token)
    const text = await this.store.run('look up a login', (client) => client.get(this.#key(digest)))
    return text === null ? undefined : { ...(JSON.parse(text) as Omit<PendingLogin, 'digest'>), digest }
  }

  /**
   * Removes a pending login.
   * @returns false if it no longer existed, so that only one of two concurrent requests continues
   * @throws {BerthError} `store_unavailable`
   */
  async end(digest: string): Promise<boolean> {
    return this.store.run('end a login', async (client) => (await client.del(this.#key(digest))) === 1)
  }

  #key(digest: string): string {
    return this.store.key('login-pending', digest)
  }

  #tries(digest: string): string {
    return this.store.key('login-tries', digest)
  }
}
