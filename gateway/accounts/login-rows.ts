import type { Store, StoreClient } from '../store/store.js'
import type { LoginAttempt } from './login-record.js'

/*
 * Nobody can push the rows of others out of the log, because only a limited number of attempts per day get separate
 * rows. The others share one row per hour and account, then one row for all.
 */

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** Attempts that differ only in their time share one row for this long. */
const sameRowMs = minuteMs

/** Shares of the log: at most a fifth for failures in a day, a hundredth for logins of one account. */
const shares = { account: 1 / 50, accounts: 1 / 10, unknown: 1 / 20, sums: 1 / 20, success: 1 / 100 } as const

/** The row that counts an attempt. */
export interface LoginRow {
  readonly attempt: LoginAttempt
  /** Time for which it counts similar attempts. */
  readonly forMs: number
}

interface PlannedRow extends LoginRow {
  /** True if the day's share permits one more row, which is counted then. */
  readonly mayBeMade: (client: StoreClient) => Promise<boolean>
}

/** Decides which attempts get separate rows. */
export class LoginRows {
  /** @param keep most rows in the log */
  constructor(
    private readonly store: Store,
    private readonly keep: number,
  ) {}

  /** Candidate rows for an attempt, by preference. It counts in the first row that exists or can be created. */
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
   * The same for a successful login.
   * @param root of the account: accounts that one limited key created count together
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

  /** Takes a place in the day's share, if there is one. */
  async #takes(client: StoreClient, of: string, share: number): Promise<boolean> {
    const key = this.store.key('login-rows', of)
    const [count] = (await client.multi().incr(key).pExpire(key, dayMs, 'NX').exec()) as unknown[]
    return Number(count) <= Math.max(1, this.keep * share)
  }
}
