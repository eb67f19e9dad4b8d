import { hash } from 'node:crypto'
import { sourceOf } from '../../shared/source-address.js'
import { rateLimited } from '../../shared/rate-limit.js'
import type { Store, StoreClient } from '../store/store.js'
import { KnownPlaces } from './known-places.js'
import {
  attackWindowMs,
  loginSteps,
  ownBucket,
  planBuckets,
  waitAfter,
  type AttemptSource,
  type Bucket,
  type LoginStep,
} from './plan-login-limits.js'

/** An attempt to log in. The attempt counts as failed until one of its methods is called. */
export interface CountedAttempt {
  /** Forgets this attempt and earlier failures in this `LoginStep`. @throws {BerthError} `store_unavailable` */
  succeeded(): Promise<void>
  /** Forgets only this attempt. Earlier failures still count. @throws {BerthError} `store_unavailable` */
  abandoned(): Promise<void>
}

/** The account and the origin of an attempt to log in. */
export interface Trier {
  readonly username: string
  readonly address: string
  /** Name of the device if it has logged in to this account before. */
  readonly device: string | undefined
}

/**
 * Counts attempts to log in, for all gateways together. An attempt is counted before its password is checked, because
 * concurrent attempts could otherwise evade the limit. The store allows no scripts. Therefore INCR counts the attempts,
 * and `SET NX` ensures that only one of several concurrent attempts is admitted after a waiting time.
 */
export class LoginLimits {
  readonly places: KnownPlaces

  constructor(private readonly store: Store) {
    this.places = new KnownPlaces(store)
  }

  /** Counts an attempt. @throws {BerthError} `rate_limited` during a waiting time, `store_unavailable` */
  async enter(trier: Trier, step: LoginStep = 'password'): Promise<CountedAttempt> {
    const attempt = attemptOf(trier)
    const failures = Number(await this.store.run('count logins', (client) => client.get(this.#failures(attempt))))
    return this.#enter(attempt, planBuckets(attempt, step, failures))
  }

  /**
   * Forgets the failed attempts of one source at an account, after a complete login from this source.
   * @throws {BerthError} `store_unavailable`
   */
  async completed(trier: Trier): Promise<void> {
    const names = loginSteps.map((step) => ownBucket(attemptOf(trier), step).name)
    const keys = names.flatMap((name) => [this.#attempts(name), this.#lock(name)])
    await this.store.run('count logins', (client) => client.del(keys))
  }

  async #enter(attempt: AttemptSource, buckets: readonly Bucket[]): Promise<CountedAttempt> {
    await this.store.run('count logins', async (client) => {
      await this.#refuseWaiting(client, buckets)
      await this.#count(client, buckets, this.#failures(attempt))
    })
    const failures = this.#failures(attempt)
    return {
      succeeded: () => this.#takeBack(buckets, failures, true),
      abandoned: () => this.#takeBack(buckets, failures, false),
    }
  }

  async #refuseWaiting(client: StoreClient, buckets: readonly Bucket[]): Promise<void> {
    const waits = await Promise.all(buckets.map(({ name }) => client.pTTL(this.#lock(name))))
    const waitMs = Math.max(0, ...waits)
    if (waitMs > 0) throw tooMany(waitMs)
  }

  async #count(client: StoreClient, buckets: readonly Bucket[], failures: string): Promise<void> {
    const multi = client.multi()
    for (const { name, allowance } of buckets)
      multi.incr(this.#attempts(name)).pExpire(this.#attempts(name), allowance.forgetMs, 'NX')
    multi.incr(failures).pExpire(failures, attackWindowMs, 'NX')
    const replies = (await multi.exec()) as unknown[]
    for (const [at, bucket] of buckets.entries()) await this.#lockAfter(client, bucket, Number(replies[2 * at]))
  }

  /**
   * Starts a waiting time if the counter has reached its limit.
   * @throws {BerthError} `rate_limited` if a concurrent attempt has already started the waiting time
   */
  async #lockAfter(client: StoreClient, { name, allowance }: Bucket, attempts: number): Promise<void> {
    const waitMs = waitAfter(attempts, allowance)
    if (waitMs === 0) return
    const expiration = { type: 'PX', value: waitMs } as const
    const [won] = await Promise.all([
      client.set(this.#lock(name), '1', { condition: 'NX', expiration }),
      client.pExpire(this.#attempts(name), waitMs + allowance.forgetMs),
    ])
    if (won === null) throw tooMany(await client.pTTL(this.#lock(name)))
  }

  /**
   * Removes an attempt from the counters.
   * @param all true: also resets the counter of this source at this account. Counters that other accounts or sources
   * share are not reset. Otherwise, attackers could reset the counter of their source by logins to their own account.
   */
  async #takeBack(buckets: readonly Bucket[], failures: string, all: boolean): Promise<void> {
    await this.store.run('count logins', async (client) => {
      const multi = client.multi()
      for (const { name, allowance } of buckets) {
        multi.del(this.#lock(name))
        if (!all || name.startsWith('source:') || name.startsWith('codes:'))
          multi.decr(this.#attempts(name)).pExpire(this.#attempts(name), allowance.forgetMs, 'NX')
        else multi.del(this.#attempts(name))
      }
      await multi.decr(failures).pExpire(failures, attackWindowMs, 'NX').exec()
    })
  }

  #attempts(name: string): string {
    return this.store.key('login-attempts', name)
  }

  #lock(name: string): string {
    return this.store.key('login-wait', name)
  }

  #failures({ account }: AttemptSource): string {
    return this.store.key('login-failures', account)
  }
}

/** Names are stored as digests, because users sometimes type a password into the field for the name. */
function attemptOf({ username, address, device }: Trier): AttemptSource {
  const account = hash('sha256', username.toLowerCase(), 'base64url').slice(0, 22)
  return { account, source: sourceOf(address), device: device && `${device}:${account}` }
}

function tooMany(waitMs: number) {
  return rateLimited('too many failed logins: try again later', waitMs)
}
