import { conflict, notFound } from '../../shared/errors.js'
import type { Store, StoreClient } from '../store/store.js'
import { WatchedRecords } from '../store/watched-records.js'
import type { Account, AccountKind } from './account-record.js'

/** Commands to add to the transaction that changes an account. */
export interface AccountTransaction {
  set(key: string, value: string, options?: { expiration: { type: 'PX' | 'PXAT'; value: number } }): unknown
  del(key: string): unknown
  sAdd(key: string, member: string): unknown
}

/** Adds writes to the transaction that changes an account. */
export type Also<A extends Account = Account> = (multi: AccountTransaction, account: A) => void

type Kinds = { readonly [Kind in AccountKind]: Extract<Account, { kind: Kind }> }

/**
 * Accounts of administrators and sub-users. Each gateway caches the accounts in use and is notified of changes. Create
 * the object before `store.start()`.
 */
export class AccountStore {
  readonly #records: WatchedRecords<Account>

  constructor(private readonly store: Store) {
    this.#records = new WatchedRecords(store, 'account', (text) => JSON.parse(text) as Account)
  }

  /** @throws {BerthError} `store_unavailable` */
  find(id: number): Promise<Account | undefined> {
    return this.#records.find(String(id))
  }

  /** @throws {BerthError} `store_unavailable` */
  async findByName(username: string): Promise<Account | undefined> {
    const key = this.#nameKey(username)
    const id = await this.store.run('look up an account', (client) => client.get(key))
    return id === null ? undefined : this.find(Number(id))
  }

  /** Lists the accounts of a kind in the order of their creation. @throws {BerthError} `store_unavailable` */
  async list<K extends AccountKind>(kind: K): Promise<Kinds[K][]> {
    return this.store.run('list accounts', (client) => this.#readAll(client, kind))
  }

  /**
   * Creates an account.
   * @param plan returns the account for a new id; throws to prevent the creation
   * @throws {BerthError} `name_conflict`, `store_unavailable`, and errors of `plan`
   */
  async create<K extends AccountKind>(
    kind: K,
    plan: (id: number, others: readonly Kinds[K][]) => Kinds[K],
    also: Also<Kinds[K]> = () => undefined,
  ): Promise<Kinds[K]> {
    return this.store.transact('create an account', async (client) => {
      await client.watch(this.#version)
      const others = await this.#readAll(client, kind)
      const account = plan(await client.incr(this.store.key('account-next')), others)
      const nameKey = this.#nameKey(account.username)
      if ((await client.exists(nameKey)) === 1)
        throw conflict('name_conflict', `an account named ${account.username} already exists`)
      const multi = client.multi()
      multi.set(this.recordKey(account.id), JSON.stringify(account))
      multi.set(nameKey, String(account.id)).sAdd(this.#idsKey(kind), String(account.id)).incr(this.#version)
      also(multi, account)
      await multi.exec()
      return account
    })
  }

  /**
   * Changes an account in one transaction. When the promise resolves, the change is in force at this gateway. At the
   * other gateways, it is in force before the request is answered, see `Visibility`. If another request changes any
   * account at the same time, `plan` runs again.
   * @throws {BerthError} `not_found`, `store_unavailable`, and errors of `plan`
   */
  async change<K extends AccountKind>(
    kind: K,
    id: number,
    plan: (account: Kinds[K], all: readonly Kinds[K][]) => Kinds[K],
    also: Also<Kinds[K]> = () => undefined,
  ): Promise<Kinds[K]> {
    const changed = await this.store.transact('change an account', async (client) => {
      const { account, all } = await this.#watch(client, kind, id)
      const next = plan(account, all)
      const multi = client.multi()
      multi.set(this.recordKey(id), JSON.stringify(next)).incr(this.#version)
      also(multi, next)
      await multi.exec()
      return next
    })
    this.#records.forget(String(id))
    return changed
  }

  /**
   * Removes an account with its stored SSH keys, and ends its sessions.
   * @param check throws to prevent the removal
   * @throws {BerthError} `not_found`, `store_unavailable`, and errors of `check`
   */
  async remove<K extends AccountKind>(
    kind: K,
    id: number,
    check: (account: Kinds[K], all: readonly Kinds[K][]) => void = () => undefined,
    also: Also<Kinds[K]> = () => undefined,
  ): Promise<Kinds[K]> {
    const removed = await this.store.transact('remove an account', async (client) => {
      const { account, all } = await this.#watch(client, kind, id)
      check(account, all)
      const multi = client.multi()
      multi.del([this.recordKey(id), this.#nameKey(account.username), this.sshKeysKey(id)])
      multi.sRem(this.#idsKey(kind), String(id)).incr(this.#version)
      also(multi, account)
      await multi.exec()
      return account
    })
    this.#records.forget(String(id))
    return removed
  }

  /** Returns the Redis key under which an account is stored as a string. */
  recordKey(id: number): string {
    return this.#records.key(String(id))
  }

  /** Returns the Redis key under which an account's SSH keys are stored as a string (see `SshKeys`). */
  sshKeysKey(id: number): string {
    return this.store.key('account-ssh-keys', id)
  }

  async #watch<K extends AccountKind>(client: StoreClient, kind: K, id: number) {
    await client.watch(this.#version)
    const all = await this.#readAll(client, kind)
    const account = all.find((one) => one.id === id)
    if (account === undefined) throw notFound('account')
    return { account, all }
  }

  async #readAll<K extends AccountKind>(client: StoreClient, kind: K): Promise<Kinds[K][]> {
    const ids = (await client.sMembers(this.#idsKey(kind))).map(Number).sort((a, b) => a - b)
    if (ids.length === 0) return []
    const texts = await client.mGet(ids.map((id) => this.recordKey(id)))
    return texts.filter((text) => text !== null).map((text) => JSON.parse(text) as Kinds[K])
  }

  /** Returns the Redis key under which the account id for this user name is stored as a string. */
  #nameKey(username: string): string {
    return this.store.key('account-name', username.toLowerCase())
  }

  /** Returns the Redis key under which the ids of all accounts of a kind are stored as a set. */
  #idsKey(kind: AccountKind): string {
    return this.store.key('account-ids', kind)
  }

  /** Redis key of the counter that each change of an account increments. */
  get #version(): string {
    return this.store.key('account-version')
  }
}
