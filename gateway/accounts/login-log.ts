import { hash } from 'node:crypto'
import type { Store, StoreClient } from '../store/store.js'
import { LoginRows, type LoginRow } from './login-rows.js'
import { matchesLogin, type LoginAttempt, type LoginFilter, type LoginRecord } from './login-record.js'
import { steadyClock } from '../../shared/steady-clock.js'

const dayMs = 86_400_000
const readAtOnce = 1000

/** Time and address of an account's last login. */
export interface LastLogin {
  readonly atMs: number
  readonly address: string
  readonly userAgent: string
}

export interface LoginRetention {
  /** Maximum number of rows. Successes and failures have separate limits, so that failures push out only failures. */
  readonly keep: number
  readonly days: number
}

export const defaultLoginRetention: LoginRetention = { keep: 10_000, days: 90 }

/** The log of logins. Successful and failed logins are stored in separate streams. Each row counts its repetitions. */
export class LoginLog {
  readonly #rows: LoginRows

  constructor(
    private readonly store: Store,
    private readonly retention: LoginRetention,
  ) {
    this.#rows = new LoginRows(store, retention.keep)
  }

  /**
   * Adds an attempt to the log. The entry is durable when the promise resolves.
   * @param root `Principal.root` of the account
   * @throws {BerthError} `store_unavailable`
   */
  async note(attempt: LoginAttempt, root = String(attempt.accountId)): Promise<void> {
    const { accountId, address, userAgent, reason } = attempt
    await this.store.run('log a login', async (client) => {
      const last: LastLogin = { atMs: steadyClock.now(), address, userAgent }
      await Promise.all([
        this.#addRow(client, attempt, root),
        reason === '' ? client.hSet(this.#last, String(accountId), JSON.stringify(last)) : undefined,
      ])
    })
  }

  async #addRow(client: StoreClient, attempt: LoginAttempt, root: string): Promise<void> {
    const planned = attempt.reason === '' ? this.#rows.planSuccess(attempt, root) : this.#rows.plan(attempt)
    for (const { mayBeMade, ...row } of planned) {
      if (await this.#countIn(client, row)) return
      if (await mayBeMade(client)) return this.#make(client, row)
    }
  }

  /** Counts the attempt in an existing row. @returns false if no such row exists */
  async #countIn(client: StoreClient, row: LoginRow): Promise<boolean> {
    const id = await client.get(this.#recentKey(row))
    if (id === null) return false
    await client.hIncrBy(this.#repeats, id, 1)
    return true
  }

  async #make(client: StoreClient, row: LoginRow): Promise<void> {
    const trim = { strategy: 'MAXLEN', strategyModifier: '=', threshold: this.retention.keep } as const
    const stream = this.#stream(row.attempt.reason === '')
    const id = await client.xAdd(stream, '*', { e: JSON.stringify(row.attempt) }, { TRIM: trim })
    await client.set(this.#recentKey(row), id, { expiration: { type: 'PX', value: row.forMs } })
  }

  /** Returns the Redis key under which the id of the current log row for such attempts is stored. */
  #recentKey({ attempt }: LoginRow): string {
    return this.store.key('login-recent', hash('sha256', JSON.stringify(attempt), 'base64url'))
  }

  /** Lists matching rows, newest first. @throws {BerthError} `store_unavailable` */
  async read(filter: LoginFilter): Promise<LoginRecord[]> {
    const wanted = [true, false].filter((success) => filter.success !== !success)
    return this.store.run('read the login log', async (client) => {
      const repeats = await client.hGetAll(this.#repeats)
      const rows = await Promise.all(wanted.map((success) => this.#readStream(client, success, repeats)))
      const matching = rows.flat().filter((record) => matchesLogin(record, filter))
      return matching.sort((a, b) => b.timeMs - a.timeMs)
    })
  }

  /** Reads the last login of each account, by account id. @throws {BerthError} `store_unavailable` */
  async lastLogins(accountIds: readonly number[]): Promise<Map<number, LastLogin>> {
    if (accountIds.length === 0) return new Map()
    const texts = await this.store.run('read the last logins', (client) =>
      client.hmGet(this.#last, accountIds.map(String)),
    )
    const found = accountIds.map((id, at) => [id, texts[at]] as const)
    return new Map(
      found.flatMap(([id, text]) => (typeof text === 'string' ? [[id, JSON.parse(text) as LastLogin]] : [])),
    )
  }

  /** Deletes the last login of an account. @throws {BerthError} `store_unavailable` */
  async forgetAccount(accountId: number): Promise<void> {
    await this.store.run('delete the last login of an account', (client) => client.hDel(this.#last, String(accountId)))
  }

  /** Deletes rows that are too old, and counters of deleted rows. @throws {BerthError} `store_unavailable` */
  async trim(): Promise<void> {
    const oldest = String(steadyClock.earliest() - this.retention.days * dayMs)
    await this.store.run('remove old entries of the login log', async (client) => {
      const streams = [true, false].map((success) => this.#stream(success))
      await Promise.all(streams.map((stream) => client.xTrim(stream, 'MINID', oldest as never)))
      const counted = await client.hKeys(this.#repeats)
      const rows = new Set<string>()
      for (const success of [true, false]) for (const { id } of await this.#messages(client, success)) rows.add(id)
      const gone = counted.filter((id) => !rows.has(id))
      if (gone.length > 0) await client.hDel(this.#repeats, gone)
    })
  }

  async #readStream(
    client: StoreClient,
    success: boolean,
    repeats: Readonly<Record<string, string>>,
  ): Promise<LoginRecord[]> {
    const messages = await this.#messages(client, success)
    return messages.map(({ id, message }) => ({
      ...(JSON.parse(message['e'] ?? '{}') as LoginAttempt),
      timeMs: Number(id.slice(0, id.indexOf('-'))),
      count: 1 + Number(repeats[id] ?? 0),
    }))
  }

  async #messages(client: StoreClient, success: boolean) {
    const all: { id: string; message: Record<string, string> }[] = []
    for (let end = '+'; ;) {
      const page = (await client.xRevRange(this.#stream(success), end, '-', { COUNT: readAtOnce })) ?? []
      all.push(...page)
      const last = page.at(-1)
      if (page.length < readAtOnce || !last) return all
      end = `(${last.id}`
    }
  }

  #stream(success: boolean): string {
    return this.store.key(success ? 'login-log' : 'login-log-failed')
  }

  /** Redis key of a hash: id of a row → number of its repetitions. */
  get #repeats(): string {
    return this.store.key('login-repeats')
  }

  /** Redis key of a hash: id of an account → its last login. */
  get #last(): string {
    return this.store.key('account-last-login')
  }
}
