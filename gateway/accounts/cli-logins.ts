import { BerthError, conflict } from '../../shared/errors.js'
import { RateLimit, rateLimited } from '../../shared/rate-limit.js'
import { sourceOf } from '../../shared/source-address.js'
import { createToken, digestToken, isToken } from './session-secret.js'
import type { Store, StoreClient } from '../store/store.js'
import type { ApiKeys, CreatedKey } from '../access/api-keys.js'
import { createUserCode, digestUserCode } from './user-code.js'

/** Time in ms for confirming a login of the command line. */
export const cliLoginMs = 10 * 60_000
/** Time in seconds that the command line waits between two requests. */
export const pollSeconds = 3
/** Maximum number of new logins within `cliLoginMs`: `maxOfSource` for one source, `maxOfAll` for all together. */
const maxOfSource = 20
const maxOfAll = 1000
/** Maximum number of wrong codes that one account can send within `cliLoginMs`. */
const maxWrongCodes = 10

/** A login that the command line has begun. */
export interface CliLogin {
  /** Name that the computer of the command line has sent. */
  readonly machine: string
  /** Address from which the login was begun. */
  readonly address: string
  readonly begunAtMs: number
  readonly expiresAtMs: number
}

interface StoredLogin extends CliLogin {
  readonly codeDigest: string
  readonly status: 'pending' | 'approved' | 'denied'
  /** Id of the request that approved the login. `ApiKeys` remembers the created key under this id. */
  readonly operationId?: string
}

export interface BegunLogin {
  /** Secret with which the command line fetches the key. */
  readonly deviceCode: string
  /** Code that the user types in the panel. */
  readonly userCode: string
}

export interface ApprovedLogin extends CliLogin, CreatedKey {}

/**
 * Logins of the command line through a browser, like the device authorization of RFC 8628. They are in the store until
 * they expire, under digests of their codes, so that any gateway can answer. All methods can throw BerthError
 * `store_unavailable`.
 */
export class CliLogins {
  readonly #polls = new RateLimit({ burst: 3, intervalMs: 1000 })

  constructor(
    private readonly store: Store,
    private readonly keys: ApiKeys,
  ) {}

  /** Begins a login. @throws {BerthError} `rate_limited` */
  async begin(machine: string, address: string): Promise<BegunLogin> {
    await this.#count(`source:${sourceOf(address)}`, maxOfSource, 'too many logins were begun from this address')
    await this.#count('all', maxOfAll, 'too many logins were begun')
    const [deviceCode, userCode] = [createToken(), createUserCode()]
    const codeDigest = digestUserCode(userCode) ?? ''
    const begunAtMs = Date.now()
    const login = { machine, address, begunAtMs, expiresAtMs: begunAtMs + cliLoginMs, codeDigest }
    const expiration = { type: 'PX', value: cliLoginMs } as const
    const digest = digestToken(deviceCode)
    await this.store.run('begin a login of the command line', (client) =>
      client
        .multi()
        .set(this.#login(digest), encode({ ...login, status: 'pending' }), { expiration })
        .set(this.#code(codeDigest), digest, { expiration })
        .exec(),
    )
    return { deviceCode, userCode }
  }

  /**
   * Finds the login that waits for a code, and counts wrong codes of the account.
   * @param account name under which the attempts of the account are counted
   * @throws {BerthError} `cli_login_unknown`, `invalid_state`, `rate_limited`
   */
  async find(account: string, userCode: string): Promise<CliLogin> {
    const { login } = await this.#find(account, userCode)
    refuseAnswered(login)
    return login
  }

  /**
   * Approves a login and creates its key. Repetitions of the request with the same `operationId` create no other key.
   * @param create creates a key for the login. The command line receives the key only once.
   * @throws {BerthError} as `find`, or the error of `create`. The login waits again if no key was created.
   */
  async approve(
    account: string,
    { userCode, operationId }: { readonly userCode: string; readonly operationId: string },
    create: (login: CliLogin) => Promise<CreatedKey>,
  ): Promise<ApprovedLogin> {
    const { digest } = await this.#find(account, userCode)
    const login = await this.#answer(digest, { status: 'approved', operationId })
    try {
      return { ...login, ...(await create(login)) }
    } catch (error) {
      // Only these errors mean that no key was created. Otherwise, a repetition of the request finds the created key.
      if (error instanceof BerthError && ['forbidden', 'conflict', 'exhausted'].includes(error.kind))
        await this.#change(digest, ({ operationId: _, ...stored }) => ({ ...stored, status: 'pending' }))
      throw error
    }
  }

  /** Denies a login. @throws {BerthError} as `find` */
  async deny(account: string, userCode: string): Promise<CliLogin> {
    const { digest } = await this.#find(account, userCode)
    return this.#answer(digest, { status: 'denied' })
  }

  /**
   * Returns the created key, only once. `undefined`: the login waits for an answer.
   * @throws {BerthError} `cli_login_unknown` after the login has expired or the key was fetched, `cli_login_denied`,
   * `rate_limited`
   */
  async poll(deviceCode: string): Promise<CreatedKey | undefined> {
    if (!isToken(deviceCode)) throw unknownLogin()
    const digest = digestToken(deviceCode)
    const login = await this.#read(digest)
    const waitMs = this.#polls.take(digest)
    if (waitMs > 0) throw rateLimited('wait longer between two requests', waitMs)
    if (login.status === 'denied') {
      await this.#forget(digest, login)
      throw new BerthError('forbidden', 'cli_login_denied', 'the login was denied in the panel')
    }
    const created = login.operationId === undefined ? undefined : await this.keys.takeMade(login.operationId)
    if (created) await this.#forget(digest, login)
    return created
  }

  /** Counts a wrong code before the search, because concurrent attempts could otherwise evade the limit. */
  async #find(account: string, userCode: string): Promise<{ digest: string; login: StoredLogin }> {
    const counter = `codes:${account}`
    await this.#count(counter, maxWrongCodes, 'too many wrong codes')
    const codeDigest = digestUserCode(userCode)
    if (codeDigest === undefined) throw unknownLogin()
    const step = 'look up a login of the command line'
    const digest = await this.store.run(step, (client) => client.get(this.#code(codeDigest)))
    if (digest === null) throw unknownLogin()
    const login = await this.#read(digest)
    const name = this.#counter(counter)
    await this.store.run(step, (client) => client.multi().decr(name).pExpire(name, cliLoginMs, 'NX').exec())
    return { digest, login }
  }

  async #read(digest: string): Promise<StoredLogin> {
    const text = await this.store.run('read a login of the command line', (client) => client.get(this.#login(digest)))
    if (text === null) throw unknownLogin()
    return JSON.parse(text) as StoredLogin
  }

  #answer(digest: string, answer: Pick<StoredLogin, 'status' | 'operationId'>): Promise<StoredLogin> {
    return this.#change(digest, (login) => {
      const isRepeated = login.status === 'approved' && login.operationId === answer.operationId
      if (!isRepeated) refuseAnswered(login)
      return { ...login, ...answer }
    })
  }

  #change(digest: string, change: (login: StoredLogin) => StoredLogin): Promise<StoredLogin> {
    const name = this.#login(digest)
    return this.store.transact('answer a login of the command line', async (client: StoreClient) => {
      await client.watch(name)
      const text = await client.get(name)
      if (text === null) throw unknownLogin()
      const changed = change(JSON.parse(text) as StoredLogin)
      await client.multi().set(name, encode(changed), { expiration: 'KEEPTTL' }).exec()
      return changed
    })
  }

  async #forget(digest: string, { codeDigest }: StoredLogin): Promise<void> {
    await this.store.run('end a login of the command line', (client) =>
      client.del([this.#login(digest), this.#code(codeDigest)]),
    )
  }

  /** @throws {BerthError} `rate_limited` if the counter exceeds its limit */
  async #count(counter: string, limit: number, message: string): Promise<void> {
    const name = this.#counter(counter)
    const [count] = await this.store.run('count logins of the command line', (client) =>
      client.multi().incr(name).pExpire(name, cliLoginMs, 'NX').exec(),
    )
    if (Number(count) <= limit) return
    const waitMs = await this.store.run('read when a limit of logins ends', (client) => client.pTTL(name))
    throw rateLimited(`${message}: try again later`, waitMs)
  }

  #login(digest: string): string {
    return this.store.key('cli-login', digest)
  }

  #code(codeDigest: string): string {
    return this.store.key('cli-login-code', codeDigest)
  }

  #counter(name: string): string {
    return this.store.key('cli-login-count', name)
  }
}

const encode = (login: StoredLogin): string => JSON.stringify(login)

function refuseAnswered({ status }: StoredLogin): void {
  if (status !== 'pending') throw conflict('invalid_state', 'the login was already confirmed or denied')
}

function unknownLogin(): BerthError {
  const message = 'no login of the command line waits with this code: check the code, or begin the login again'
  return new BerthError('not_found', 'cli_login_unknown', message)
}
