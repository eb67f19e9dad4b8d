import type { Store, StoreClient } from '../store/store.js'
import type { LoginAttempt } from './login-record.js'

/*
 * This module decides which login attempts get separate rows in the login log. The number of separate rows per day is
 * limited, because an attacker could otherwise push out other users' rows. Beyond the limit, attempts at the same
 * account share one row per hour. If there are too many of these rows, attempts at all accounts share one row.
 */

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** Maximum time in ms between attempts that share a row. Such attempts differ only in their time. */
const sameRowMs = minuteMs

/** Maximum number of new rows of each kind per day, as fractions of `keep`. Failed logins together get a fifth. */
const shares = { account: 1 / 50, accounts: 1 / 10, unknown: 1 / 20, sums: 1 / 20, success: 1 / 100 } as const

/** A row of the log that counts similar attempts. */
export interface LoginRow {
  readonly attempt: LoginAttempt
  /** Time in ms for which the row counts similar attempts. */
  readonly forMs: number
}

interface PlannedRow extends LoginRow {
  /** Counts a new row of this kind. Returns false if the day's limit for the kind is reached. */
  readonly mayBeMade: (client: StoreClient) => Promise<boolean>
}

export class LoginRows {
  /** @param keep maximum number of rows in the log */
  constructor(
    private readonly store: Store,
    private readonly keep: number,
  ) {}

  /**
   * Lists the log rows in which an attempt can be counted, beginning with the most detailed row. The attempt is counted
   * in the first of these rows that exists or may be created.
   */
  plan(attempt: LoginAttempt): readonly PlannedRow[] {
    const { accountId } = attempt
    const ofAccount = { ...attempt, address: '', userAgent: '' }
    const own: PlannedRow = { attempt, forMs: sameRowMs, mayBeMade: (client) => this.#hasOwn(client, accountId) }
    const sum: PlannedRow = {
      attempt: ofAccount,
      forMs: hourMs,
      mayBeMade: (client) => this.#takes(client, 'sums', shares.sums),
    }
    const all: PlannedRow = {
      attempt: { ...ofAccount, accountId: 0, username: '' },
      forMs: hourMs,
      mayBeMade: () => Promise.resolve(true),
    }
    return accountId === 0 ? [own, all] : [own, sum, all]
  }

  /**
   * Lists the possible rows of a successful login.
   * @param root `Principal.root` of the account. All accounts with this root share one limit of rows per day.
   */
  planSuccess(attempt: LoginAttempt, root: string): readonly PlannedRow[] {
    const ofAccount = { ...attempt, address: '', userAgent: '' }
    const own: PlannedRow = {
      attempt,
      forMs: sameRowMs,
      mayBeMade: (client) => this.#takes(client, `success:${root}`, shares.success),
    }
    const sum: PlannedRow = {
      attempt: ofAccount,
      forMs: hourMs,
      mayBeMade: (client) => this.#takes(client, `success-sums:${root}`, shares.success),
    }
    const all = { ...ofAccount, accountId: 0, username: '' }
    return [own, sum, { attempt: all, forMs: hourMs, mayBeMade: () => Promise.resolve(true) }]
  }

  async #hasOwn(client: StoreClient, accountId: number): Promise<boolean> {
    if (accountId === 0) return this.#takes(client, 'unknown', shares.unknown)
    return (
      (await this.#takes(client, `account:${accountId}`, shares.account)) &&
      (await this.#takes(client, 'accounts', shares.accounts))
    )
  }

  /** Counts a new row of the kind `of`. @returns false if the day's rows of this kind exceed `share` times `keep` */
  async #takes(client: StoreClient, of: string, share: number): Promise<boolean> {
    const key = this.store.key('login-rows', of)
    const [count] = (await client.multi().incr(key).pExpire(key, dayMs, 'NX').exec()) as unknown[]
    return Number(count) <= Math.max(1, this.keep * share)
  }
}
