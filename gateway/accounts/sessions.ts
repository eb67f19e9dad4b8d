import { notFound } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Store } from '../store/store.js'
import { WatchedRecords } from '../store/watched-records.js'
import { withoutSessions, type Account, type AccountKind } from './account-record.js'
import type { AccountStore, AccountTransaction } from './account-store.js'
import { SessionActivity } from './session-activity.js'
import { isCurrent, keeps, planSession, planView, type Device, type SessionRecord } from './session-record.js'
import { createToken, digestToken, isToken } from './session-secret.js'

export interface Session {
  /** SHA-256 of the session's token. It identifies the session in the store. */
  readonly digest: string
  readonly record: SessionRecord
  readonly account: Account
  /** Session of the administrator who sees the panel as `account`. Absent: the user of `account` has logged in. */
  readonly viewer?: Session
}

/** Returns the account of the person who uses a session. It differs from `account` while an administrator views it. */
export function userOf({ account, viewer }: Session): Account {
  return viewer?.account ?? account
}

/** A new session, and the token for its cookie. */
export interface NewSession {
  readonly token: string
  readonly digest: string
  readonly record: SessionRecord
}

export interface ListedSession {
  readonly id: string
  readonly record: SessionRecord
  readonly seenAtMs: number
}

/** Maximum number of sessions of an account. A further session ends the oldest session. */
const maxSessions = 50

/** The public id of a session, from its digest. */
export function sessionId(digest: string): string {
  return digest.slice(0, 32)
}

/**
 * Sessions of logged-in users, stored under the digests of their tokens. Each gateway caches the sessions in use and is
 * notified when one ends. If the `generation` of an account increases, all its sessions end (see `withoutSessions`).
 * Create the object before `store.start()`.
 */
export class Sessions {
  readonly #records: WatchedRecords<SessionRecord>
  readonly #activity: SessionActivity

  constructor(
    private readonly store: Store,
    private readonly accounts: AccountStore,
  ) {
    this.#records = new WatchedRecords(store, 'session', (text) => JSON.parse(text) as SessionRecord)
    this.#activity = new SessionActivity(store)
  }

  /** Finds the session with this token, and records a use. @throws {BerthError} `store_unavailable` */
  async find(token: string): Promise<Session | undefined> {
    return isToken(token) ? this.findByDigest(digestToken(token)) : undefined
  }

  /** Finds a session by the digest of its token, and records a use. @throws {BerthError} `store_unavailable` */
  async findByDigest(digest: string): Promise<Session | undefined> {
    const session = await this.#findCurrent(digest, (viewer) => this.findByDigest(viewer))
    if (session === undefined) return undefined
    const used = await this.#activity.note(digest, session.record.idleMs, steadyClock.now())
    return used ? session : undefined
  }

  /** Finds the session with this token without recording a use. @throws {BerthError} `store_unavailable` */
  async peek(token: string): Promise<Session | undefined> {
    return isToken(token) ? this.#peekByDigest(digestToken(token)) : undefined
  }

  async #peekByDigest(digest: string): Promise<Session | undefined> {
    const session = await this.#findCurrent(digest, (viewer) => this.#peekByDigest(viewer))
    if (session === undefined) return undefined
    const alive = await this.#activity.isAlive(session.digest, session.record.idleMs, steadyClock.now())
    return alive ? session : undefined
  }

  /** @param findViewer finds the administrator's session of a view, which ends with that session */
  async #findCurrent(
    digest: string,
    findViewer: (digest: string) => Promise<Session | undefined>,
  ): Promise<Session | undefined> {
    const record = await this.#records.find(digest)
    if (record === undefined) return undefined
    const account = await this.accounts.find(record.accountId)
    if (!isCurrent(record, account, steadyClock.now())) return undefined
    if (record.viewerDigest === undefined) return { digest, record, account }
    const viewer = await findViewer(record.viewerDigest)
    return viewer && { digest, record, account, viewer }
  }

  /** Returns a session by its digest. @throws {BerthError} `not_found` if the session has ended, `store_unavailable` */
  async get(digest: string): Promise<Session> {
    const session = await this.#findCurrent(digest, (viewer) => this.get(viewer))
    if (session === undefined) throw notFound('session')
    return session
  }

  /** Plans a session without storing it. The account need not be stored yet. */
  plan(account: Account, device: Device, keep: boolean): NewSession {
    const token = createToken()
    const record = planSession(account, device, { nowMs: steadyClock.now(), keep })
    return { token, digest: digestToken(token), record }
  }

  /** Adds the writes for a planned session to a transaction. */
  write(multi: AccountTransaction, { digest, record }: NewSession): void {
    this.#writeRecord(multi, { digest, record })
    multi.sAdd(this.#digestsKey(record.accountId), digest)
  }

  #writeRecord(multi: AccountTransaction, { digest, record }: Pick<NewSession, 'digest' | 'record'>): void {
    const { createdAtMs: atMs, expiresAtMs, idleMs } = record
    const expiration = { type: 'PXAT', value: expiresAtMs } as const
    multi.set(this.#records.key(digest), JSON.stringify(record), { expiration })
    this.#activity.begin(multi, digest, { idleMs, atMs })
  }

  /** Begins a session. @throws {BerthError} `store_unavailable` */
  async begin(account: Account, device: Device, keep: boolean): Promise<NewSession> {
    const session = this.plan(account, device, keep)
    await this.store.run('begin a session', async (client) => {
      const multi = client.multi()
      this.write(multi, session)
      await multi.exec()
    })
    await this.#endOldest(account)
    return session
  }

  /**
   * Begins a session in which an administrator sees the panel as `account`. The account does not list it as its own.
   * @throws {BerthError} `store_unavailable`
   */
  async beginView(viewer: Session, account: Account): Promise<NewSession> {
    const token = createToken()
    const digest = digestToken(token)
    const record = planView(account, viewer, steadyClock.now())
    await this.store.run('begin a view', async (client) => {
      const multi = client.multi()
      this.#writeRecord(multi, { digest, record })
      await multi.exec()
    })
    return { token, digest, record }
  }

  /**
   * Changes an account, ends all its sessions and begins a new one for the caller, in one transaction.
   * @throws {BerthError} as in `AccountStore.change`
   */
  async restart(
    { record, account }: Session,
    device: Device,
    plan: (account: Account) => Account,
  ): Promise<{ account: Account; session: NewSession }> {
    const made: NewSession[] = []
    const changed = await this.accounts.change<AccountKind>(
      account.kind,
      account.id,
      (now) => {
        // If another request has ended this session in the meantime, the change is rejected.
        if (!isCurrent(record, now, steadyClock.now())) throw notFound('session')
        return withoutSessions(plan(now))
      },
      (multi, next) => {
        const session = this.plan(next, device, keeps(record))
        this.write(multi, session)
        made.unshift(session)
      },
    )
    await this.#readAll(changed)
    return { account: changed, session: made[0] as NewSession }
  }

  /** Lists the valid sessions of an account, newest first. @throws {BerthError} `store_unavailable` */
  async list(account: Account): Promise<ListedSession[]> {
    const sessions = await this.#readAll(account)
    const seen = await this.#activity.readAll(sessions.map(({ digest }) => digest))
    return sessions
      .filter(({ digest }) => seen.has(digest))
      .map(({ digest, record }) => ({ id: sessionId(digest), record, seenAtMs: seen.get(digest) ?? 0 }))
      .sort((a, b) => b.record.createdAtMs - a.record.createdAtMs)
  }

  /** Ends one session of an account. @throws {BerthError} `not_found`, `store_unavailable` */
  async end(account: Account, id: string): Promise<void> {
    const sessions = await this.#readAll(account)
    const found = sessions.find(({ digest }) => sessionId(digest) === id)
    if (found === undefined) throw notFound('session')
    await this.endAll(account.id, [found.digest])
  }

  /**
   * Ends all sessions of an account except one.
   * @returns the number of sessions that were ended
   * @throws {BerthError} `store_unavailable`
   */
  async endOthers(account: Account, digest: string): Promise<number> {
    const others = (await this.#readAll(account)).map((one) => one.digest).filter((one) => one !== digest)
    await this.endAll(account.id, others)
    return others.length
  }

  /** @throws {BerthError} `store_unavailable` */
  async endAll(accountId: number, digests: readonly string[]): Promise<void> {
    if (digests.length === 0) return
    const keys = digests.flatMap((digest) => [this.#records.key(digest), this.#activity.key(digest)])
    await this.store.run('end sessions', async (client) => {
      await client
        .multi()
        .del(keys)
        .sRem(this.#digestsKey(accountId), [...digests])
        .exec()
    })
    for (const digest of digests) {
      this.#records.forget(digest)
      this.#activity.forget(digest)
    }
  }

  /** Records that the user has just entered the password or a code again. @throws {BerthError} `store_unavailable` */
  async confirm({ digest, record }: Session): Promise<void> {
    const confirmed: SessionRecord = { ...record, confirmedAtMs: steadyClock.now() }
    await this.store.run('confirm a session', (client) =>
      client.set(this.#records.key(digest), JSON.stringify(confirmed), {
        condition: 'XX',
        expiration: { type: 'PXAT', value: record.expiresAtMs },
      }),
    )
    this.#records.forget(digest)
  }

  /** Reads the sessions of an account, and deletes stored data of ended sessions. */
  async #readAll(account: Account): Promise<{ digest: string; record: SessionRecord }[]> {
    const name = this.#digestsKey(account.id)
    const digests = await this.store.run('list sessions', (client) => client.sMembers(name))
    if (digests.length === 0) return []
    const texts = await this.store.run('list sessions', (client) =>
      client.mGet(digests.map((digest) => this.#records.key(digest))),
    )
    const all = digests.map((digest, at) => ({ digest, record: parse(texts[at]) }))
    const current = all.filter(({ record }) => record && isCurrent(record, account, steadyClock.now()))
    const ended = all.filter((one) => !current.includes(one)).map(({ digest }) => digest)
    await this.endAll(account.id, ended)
    return current as { digest: string; record: SessionRecord }[]
  }

  async #endOldest(account: Account): Promise<void> {
    const sessions = await this.#readAll(account)
    const oldest = sessions.sort((a, b) => b.record.createdAtMs - a.record.createdAtMs).slice(maxSessions)
    await this.endAll(
      account.id,
      oldest.map(({ digest }) => digest),
    )
  }

  /** Returns the Redis key under which the digests of an account's sessions are stored as a set. */
  #digestsKey(accountId: number): string {
    return this.store.key('account-sessions', accountId)
  }
}

function parse(text: string | null | undefined): SessionRecord | undefined {
  return typeof text === 'string' ? (JSON.parse(text) as SessionRecord) : undefined
}
