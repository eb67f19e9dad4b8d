import { BerthError, invalidField, notFound } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Store } from '../store/store.js'
import type { Role } from '../access/roles.js'
import {
  roleOf,
  usernamePattern,
  usernameRule,
  withoutSessions,
  type AdminAccount,
  type LinkRecord,
} from './account-record.js'
import type { AccountStore, AccountTransaction } from './account-store.js'
import type { LoginLog } from './login-log.js'
import { checkNewPassword, type PasswordClaim, type Passwords } from './passwords.js'
import { checkAdminLeft } from './plan-admins.js'
import { withoutSecondFactors } from './second-factors.js'
import { createToken, digestToken, isToken } from './session-secret.js'

/** New administrators are rare, so all of them share one account in the queue for password hashes (see `FairGate`). */
const passwordClaim: PasswordClaim = { account: 'administrators', source: '' }

/** Lifetime in ms of a set-up link. */
const linkMs = 24 * 3_600_000

export interface AdminParts {
  readonly store: Store
  readonly accounts: AccountStore
  readonly passwords: Passwords
  readonly log: Pick<LoginLog, 'forgetAccount'>
}

/** An administrator with a link to set the password. The token of the link is shown only once. */
export interface LinkedAdmin {
  readonly admin: AdminAccount
  readonly token: string
}

/** A change of an administrator. Undefined fields keep their value. */
export interface AdminChange {
  readonly disabled?: boolean | undefined
  readonly role?: Role | undefined
}

interface NewLink {
  readonly token: string
  readonly link: LinkRecord
}

/** Administrators, and their links for setting a password. All methods can throw BerthError `store_unavailable`. */
export class Admins {
  constructor(private readonly parts: AdminParts) {}

  list(): Promise<AdminAccount[]> {
    return this.parts.accounts.list('admin')
  }

  /** @throws {BerthError} `name_conflict`, `invalid_field` */
  async create(username: string, password: string, role: Role = 'full'): Promise<AdminAccount> {
    checkName(username)
    checkNewPassword(password, { username, kind: 'admin' })
    const passwordHash = await this.parts.passwords.hash(password, passwordClaim)
    return this.parts.accounts.create('admin', (id) => ({ ...newAdmin(id, username, passwordHash), role }))
  }

  /** Creates an administrator without a password. @throws {BerthError} `name_conflict`, `invalid_field` */
  async invite(username: string, role: Role = 'full'): Promise<LinkedAdmin> {
    checkName(username)
    const { token, link } = newLink()
    const admin = await this.parts.accounts.create(
      'admin',
      (id) => ({ ...newAdmin(id, username, ''), role, link }),
      (multi, account) => this.#index(multi, link, account.id),
    )
    return { admin, token }
  }

  /**
   * Disables or enables an administrator, or changes the role. Each change ends the administrator's sessions.
   * @throws {BerthError} `not_found`, `invalid_state` for the last full administrator who can log in
   */
  update(id: number, change: AdminChange): Promise<AdminAccount> {
    return this.parts.accounts.change('admin', id, (admin, all) => {
      const { disabled = admin.disabled, role = roleOf(admin) } = change
      if (disabled === admin.disabled && role === roleOf(admin)) return admin
      if (disabled || role !== 'full') checkAdminLeft(all, admin)
      return withoutSessions({ ...admin, disabled, role })
    })
  }

  /** @throws {BerthError} `not_found`, `invalid_state` for the last full administrator who can log in */
  async remove(id: number): Promise<AdminAccount> {
    const removed = await this.parts.accounts.remove('admin', id, (admin, all) => checkAdminLeft(all, admin))
    await this.parts.log.forgetAccount(id)
    return removed
  }

  /**
   * Recovers an account after a takeover, or after the loss of its password or second factor. Deletes password and
   * second factor, ends all sessions and returns a link to set a new password.
   * @throws {BerthError} `not_found`
   */
  async recover(username: string): Promise<LinkedAdmin> {
    const found = await this.parts.accounts.findByName(username)
    if (found?.kind !== 'admin') throw notFound(`administrator ${username}`)
    const { token, link } = newLink()
    const admin = await this.parts.accounts.change(
      'admin',
      found.id,
      (now) => withoutSessions({ ...withoutSecondFactors(now), passwordHash: '', disabled: false, link }),
      (multi) => this.#index(multi, link, found.id),
    )
    return { admin, token }
  }

  /**
   * Creates the link for the first administrator. An earlier link becomes invalid. @returns `undefined` if an
   * administrator exists
   */
  async firstLink(): Promise<string | undefined> {
    if ((await this.list()).length > 0) return undefined
    const token = createToken()
    await this.parts.store.run('create the first setup link', (client) =>
      client.set(this.#firstKey, digestToken(token), { expiration: { type: 'PX', value: linkMs } }),
    )
    return token
  }

  /** True if an unused link for the first administrator exists. */
  async hasFirstLink(): Promise<boolean> {
    if ((await this.list()).length > 0) return false
    return (await this.parts.store.run('find the setup link', (client) => client.exists(this.#firstKey))) === 1
  }

  /** True if a valid link exists, for the first administrator or for an existing administrator. */
  async hasLink(): Promise<boolean> {
    const admins = await this.list()
    return admins.length === 0 ? this.hasFirstLink() : admins.some(isOpen)
  }

  /**
   * Returns the administrator whose password the link sets. `undefined`: the link creates the first administrator.
   * @throws {BerthError} `not_found` if the link was used, has expired or is unknown
   */
  async ownerOf(token: string): Promise<AdminAccount | undefined> {
    const { digest, accountId } = await this.#findLink(token)
    if (accountId !== 'first') return this.#linked(accountId, digest)
    if ((await this.list()).length > 0) throw invalidLink()
    return undefined
  }

  /**
   * Uses a link: creates the first administrator, or sets the password of an existing one.
   * @param username name of the first administrator; ignored if the link belongs to an existing administrator
   * @throws {BerthError} `not_found` as in `ownerOf`, `invalid_field`, `name_conflict`
   */
  async redeem(token: string, { username, password }: { username: string; password: string }): Promise<AdminAccount> {
    const { digest, accountId } = await this.#findLink(token)
    if (accountId === 'first') return this.#makeFirst(username, password)
    return this.#setPassword(accountId, digest, password)
  }

  async #findLink(token: string): Promise<{ digest: string; accountId: number | 'first' }> {
    if (!isToken(token)) throw invalidLink()
    const digest = digestToken(token)
    if (digest === (await this.#read(this.#firstKey))) return { digest, accountId: 'first' }
    const id = await this.#read(this.#linkKey(digest))
    if (id === null) throw invalidLink()
    return { digest, accountId: Number(id) }
  }

  async #makeFirst(username: string, password: string): Promise<AdminAccount> {
    checkName(username)
    checkNewPassword(password, { username, kind: 'admin' })
    const passwordHash = await this.parts.passwords.hash(password, passwordClaim)
    return this.parts.accounts.create(
      'admin',
      (id, others) => {
        // If several requests use the link at the same time, only the first may create the administrator.
        if (others.length > 0) throw invalidLink()
        return newAdmin(id, username, passwordHash)
      },
      (multi) => void multi.del(this.#firstKey),
    )
  }

  async #setPassword(id: number, digest: string, password: string): Promise<AdminAccount> {
    checkNewPassword(password, await this.#linked(id, digest))
    const passwordHash = await this.parts.passwords.hash(password, passwordClaim)
    return this.parts.accounts.change(
      'admin',
      id,
      (now) => {
        if (!leadsTo(now, digest)) throw invalidLink()
        const { link: _, ...rest } = now
        return withoutSessions({ ...rest, passwordHash })
      },
      (multi) => void multi.del(this.#linkKey(digest)),
    )
  }

  async #linked(id: number, digest: string): Promise<AdminAccount> {
    const account = await this.parts.accounts.find(id)
    if (account?.kind !== 'admin' || !leadsTo(account, digest)) throw invalidLink()
    return account
  }

  #index(multi: AccountTransaction, { digest, expiresAtMs }: LinkRecord, id: number): void {
    multi.set(this.#linkKey(digest), String(id), { expiration: { type: 'PXAT', value: expiresAtMs } })
  }

  #read(key: string): Promise<string | null> {
    return this.parts.store.run('look up a setup link', (client) => client.get(key))
  }

  /** Redis key under which the digest of the first administrator's link is stored as a string. */
  get #firstKey(): string {
    return this.parts.store.key('setup-first')
  }

  /** Returns the Redis key under which the id of a link's account is stored as a string. */
  #linkKey(digest: string): string {
    return this.parts.store.key('setup-link', digest)
  }
}

function newAdmin(id: number, username: string, passwordHash: string): AdminAccount {
  return {
    kind: 'admin',
    id,
    username,
    passwordHash,
    disabled: false,
    generation: 1,
    createdAtMs: steadyClock.now(),
  }
}

function newLink(): NewLink {
  const token = createToken()
  return { token, link: { digest: digestToken(token), expiresAtMs: steadyClock.now() + linkMs } }
}

function leadsTo(admin: AdminAccount, digest: string): boolean {
  return isOpen(admin) && admin.link?.digest === digest
}

function isOpen({ link, disabled }: AdminAccount): boolean {
  return !disabled && link !== undefined && link.expiresAtMs > steadyClock.now()
}

/** @throws {BerthError} `invalid_field` */
function checkName(username: string): void {
  if (!new RegExp(usernamePattern).test(username))
    throw invalidField('username', `username: ${usernameRule}`, { name: 'username' })
}

function invalidLink(): BerthError {
  return new BerthError('not_found', 'not_found', 'this link is not valid: it was used or has expired')
}
