import { BerthError, conflict, notFound } from '../../shared/errors.js'
import { MadeSecrets } from '../access/made-secrets.js'
import type { CreationLimit } from '../access/creation-limits.js'
import { creationShareOf, isUnbounded, type Principal } from '../access/principal.js'
import { withoutPasskeys } from '../accounts/second-factors.js'
import { withoutSessions, type SubUserAccount } from '../accounts/account-record.js'
import type { AccountStore, AccountTransaction } from '../accounts/account-store.js'
import type { Passwords } from '../accounts/passwords.js'
import type { Store } from '../store/store.js'
import {
  AccessCodes,
  digestCode,
  isAccessCode,
  makeSubUserPassword,
  makeNameEnd,
  makeUsername,
  type AccessCode,
} from './access-codes.js'
import { Owners } from './owners.js'
import {
  checkAccountLimit,
  checkContainerCount,
  checkManageable,
  findSame,
  maySeeSubUser,
  planSubUserChange,
  planTerms,
  planUsername,
  type SubUserChange,
  type SubUserFields,
} from './plan-sub-user.js'

export interface SubUsersOptions {
  readonly store: Store
  readonly accounts: AccountStore
  readonly passwords: Passwords
  /** 32 secret bytes, the same in all gateways on one store. */
  readonly secret: Buffer
  readonly limit: CreationLimit
}

/** A sub-user and its secrets, which only its creator sees. */
export interface ShownSubUser {
  readonly account: SubUserAccount
  readonly accessCode: string
  /** The password. "": an earlier request has created the account, and the password is not shown again. */
  readonly password: string
}

/** The password that an operation created, stored for repetitions of the request. */
interface MadePassword {
  readonly password: string
  /** Hash of this password. If the account has another hash, the password is no longer valid. */
  readonly passwordHash: string
}

/** Thrown to end a creation, because the same sub-user already exists. The existing sub-user is returned. */
class AlreadyThere extends BerthError {
  constructor(readonly account: SubUserAccount) {
    super('conflict', 'invalid_state', 'the sub-user already exists')
  }
}

/**
 * Sub-users: accounts that are restricted to containers. All methods may throw BerthError `store_unavailable`.
 *
 * | key | holds |
 * |---|---|
 * | `sub-user-code:<digest of an access code>` | id of the account |
 * | `sub-user-operation:<operation id>` | encrypted password that the operation created, for two days |
 */
export class SubUsers {
  readonly #codes: AccessCodes
  readonly #made: MadeSecrets
  readonly owners: Owners

  constructor(private readonly options: SubUsersOptions) {
    const { store, secret } = options
    this.#codes = new AccessCodes(secret)
    this.owners = new Owners(store, options.accounts)
    const nameOf = (operationId: string): string => store.key('sub-user-operation', operationId)
    this.#made = new MadeSecrets({ nameOf, secret, use: 'passwords of sub-users' })
  }

  /** Lists the sub-users that a caller may see, in the order of their creation. */
  async list(caller: Principal): Promise<SubUserAccount[]> {
    const accounts = await this.options.accounts.list('sub_user')
    return accounts.filter((account) => maySeeSubUser(caller, account))
  }

  /** @throws {BerthError} `not_found` */
  async get(caller: Principal, id: number): Promise<SubUserAccount> {
    const account = await this.options.accounts.find(id)
    if (account?.kind !== 'sub_user' || !maySeeSubUser(caller, account)) throw notFound('sub-user')
    return account
  }

  /**
   * Finds a sub-user to whom the caller may assign another container.
   * @throws {BerthError} `not_found`, `insufficient_scope`, `invalid_field`
   */
  async findAssignable(caller: Principal, id: number): Promise<SubUserAccount> {
    const account = await this.get(caller, id)
    checkManageable(caller, account)
    checkContainerCount(account.containerUuids.length + 1)
    return account
  }

  /** Finds the account to which an access code belongs. */
  async findByCode(code: string): Promise<SubUserAccount | undefined> {
    if (!isAccessCode(code)) return undefined
    const { store, accounts } = this.options
    const digest = digestCode(code)
    const id = await store.run('look up an access code', (client) => client.get(this.#codeKey(digest)))
    const account = id === null ? undefined : await accounts.find(Number(id))
    return account?.kind === 'sub_user' && account.codeDigest === digest ? account : undefined
  }

  codeOf({ codeDigest: digest, sealedCode: sealed }: SubUserAccount): string {
    return this.#codes.open({ digest, sealed })
  }

  /**
   * Creates a sub-user. If another request has created one with the same containers, returns it without a password.
   * @param operationId id of the request; a repetition with this id returns the first answer with its password
   * @throws {BerthError} `insufficient_scope`, `not_found`, `name_conflict`, `invalid_state`, `account_limit_reached`
   */
  async create(
    caller: Principal,
    fields: SubUserFields & { containerUuids: readonly string[] },
    operationId?: string,
  ): Promise<ShownSubUser> {
    const made = await this.#findMade(operationId)
    if (made) return made
    const username =
      fields.username === undefined ? makeUsername() : planUsername(fields.username, caller, makeNameEnd())
    const terms = planTerms({ ...fields, username }, caller)
    const all = await this.options.accounts.list('sub_user')
    const there = findSame(all, fields, caller)
    if (there) return this.#asItIs(there)
    checkAccountLimit(all, caller, this.options.limit)
    const { password, passwordHash } = await this.#makePassword(caller)
    const code = this.#codes.create()
    const also = (multi: AccountTransaction, { id }: SubUserAccount): void => {
      multi.set(this.#codeKey(code.digest), String(id))
      this.#note(multi, { operationId, id, made: { password, passwordHash } })
    }
    try {
      const account = await this.options.accounts.create(
        'sub_user',
        (id, others) => {
          const same = findSame(others, fields, caller)
          if (same) throw new AlreadyThere(same)
          checkAccountLimit(others, caller, this.options.limit)
          return {
            ...newAccount(id, passwordHash, code),
            ...terms,
            createdBy: caller.ref,
            ...rootsOf(caller),
          }
        },
        also,
      )
      return { account, password, accessCode: code.code }
    } catch (error) {
      if (error instanceof AlreadyThere) return this.#asItIs(error.account)
      throw error
    } finally {
      this.owners.forget()
    }
  }

  /**
   * Sets a new password, removes the passkeys, and ends the sessions of the account.
   * @param operationId as in `create`
   * @throws {BerthError} `not_found`, `insufficient_scope`, `invalid_state`
   */
  async rotate(
    caller: Principal,
    id: number,
    { rotateCode, operationId }: { rotateCode: boolean; operationId?: string | undefined },
  ): Promise<ShownSubUser> {
    const made = await this.#findMade(operationId)
    if (made) return made
    checkManageable(caller, await this.get(caller, id))
    const { password, passwordHash } = await this.#makePassword(caller)
    const code = rotateCode ? this.#codes.create() : undefined
    let old = ''
    const account = await this.#change(
      id,
      (before) => {
        checkManageable(caller, before)
        old = before.codeDigest
        const codes = code && { codeDigest: code.digest, sealedCode: code.sealed }
        // Passkeys are removed, because the former holder could still log in with them, without the new password.
        return withoutSessions(withoutPasskeys({ ...before, passwordHash, ...codes }))
      },
      (multi) => {
        if (code) this.#moveCode(multi, { id, from: old, to: code.digest })
        this.#note(multi, { operationId, id, made: { password, passwordHash } })
      },
    )
    return { account, password, accessCode: this.codeOf(account) }
  }

  /** @throws {BerthError} `not_found`, `insufficient_scope`, `invalid_field` */
  async update(caller: Principal, id: number, change: SubUserChange): Promise<SubUserAccount> {
    await this.get(caller, id)
    return this.#change(id, (account) => planSubUserChange(account, change, caller))
  }

  /** @throws {BerthError} `not_found`, `insufficient_scope` */
  async remove(caller: Principal, id: number): Promise<SubUserAccount> {
    await this.get(caller, id)
    const removed = await this.options.accounts.remove(
      'sub_user',
      id,
      (account) => checkManageable(caller, account),
      (multi, { codeDigest }) => multi.del(this.#codeKey(codeDigest)),
    )
    this.owners.forget()
    return removed
  }

  /** Removes deleted containers from all accounts. @returns the number of accounts that were changed */
  async dropContainers(areGone: (uuids: readonly string[]) => Promise<readonly string[]>): Promise<number> {
    const accounts = await this.options.accounts.list('sub_user')
    const uuids = new Set(accounts.flatMap(({ containerUuids }) => containerUuids))
    const gone = new Set(await areGone([...uuids]))
    const withGone = accounts.filter(({ containerUuids }) => containerUuids.some((uuid) => gone.has(uuid)))
    for (const { id } of withGone) await this.#change(id, without(gone)).catch(ignoreMissing)
    return withGone.length
  }

  async #change(
    id: number,
    plan: (account: SubUserAccount) => SubUserAccount,
    also: (multi: AccountTransaction) => void = () => undefined,
  ): Promise<SubUserAccount> {
    const changed = await this.options.accounts.change('sub_user', id, plan, also)
    this.owners.forget()
    return changed
  }

  #moveCode(multi: AccountTransaction, { id, from, to }: { id: number; from: string; to: string }): void {
    multi.del(this.#codeKey(from))
    multi.set(this.#codeKey(to), String(id))
  }

  #asItIs(account: SubUserAccount): ShownSubUser {
    return { account, password: '', accessCode: this.codeOf(account) }
  }

  async #makePassword({ root }: Principal): Promise<MadePassword> {
    const password = makeSubUserPassword()
    const claim = { account: root, source: '' }
    return { password, passwordHash: await this.options.passwords.hash(password, claim) }
  }

  #note(
    multi: AccountTransaction,
    { operationId, id, made }: { operationId: string | undefined; id: number; made: MadePassword },
  ): void {
    if (operationId === undefined) return
    const { key, value, keepMs } = this.#made.marker(operationId, id, JSON.stringify(made))
    multi.set(key, value, { expiration: { type: 'PX', value: keepMs } })
  }

  /** Finds the password that an operation has created, if the password is still valid. */
  async #findMade(operationId: string | undefined): Promise<ShownSubUser | undefined> {
    if (operationId === undefined) return undefined
    const { store, accounts } = this.options
    const found = await store.run('look up a requested password', (client) => this.#made.find(client, operationId))
    if (found === undefined) return undefined
    const { password, passwordHash } = JSON.parse(found.key) as MadePassword
    const account = await accounts.find(found.id)
    if (account?.kind !== 'sub_user' || account.passwordHash !== passwordHash)
      throw conflict(
        'invalid_state',
        'this request was already carried out, but the password that it created is no longer valid: request a new password',
      )
    return { account, password, accessCode: this.codeOf(account) }
  }

  #codeKey(digest: string): string {
    return this.options.store.key('sub-user-code', digest)
  }
}

/** Returns `root` and `boundRoot` of a new account: the callers whose quotas include the account. */
function rootsOf(caller: Principal): Pick<SubUserAccount, 'root' | 'boundRoot'> {
  const { share, isBound } = creationShareOf(caller)
  return { ...(!isUnbounded(caller) && { root: caller.root }), ...(isBound && { boundRoot: share }) }
}

function newAccount(id: number, passwordHash: string, { digest, sealed }: AccessCode) {
  return {
    ...({ kind: 'sub_user', id, passwordHash, generation: 1 } as const),
    createdAtMs: Date.now(),
    codeDigest: digest,
    sealedCode: sealed,
  }
}

function without(gone: ReadonlySet<string>): (account: SubUserAccount) => SubUserAccount {
  return (account) => ({
    ...account,
    containerUuids: account.containerUuids.filter((uuid) => !gone.has(uuid)),
  })
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof BerthError && error.kind === 'not_found')) throw error
}
