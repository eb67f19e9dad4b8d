import { BerthError, conflict } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { sourceOf } from '../../shared/source-address.js'
import type { LoginStep } from './plan-login-limits.js'
import { isUsable, rootAccountOf, type Account, type AccountKind } from './account-record.js'
import type { AccountStore } from './account-store.js'
import type { KnownDevices } from './known-devices.js'
import type { CountedAttempt, LoginLimits, Trier } from './login-limits.js'
import type { LoginLog } from './login-log.js'
import { loggedAgent, loggedName, type LoginMethod, type LoginReason } from './login-record.js'
import type { ChallengePurpose } from './passkey-challenges.js'
import type { PasswordClaim, Passwords } from './passwords.js'
import { accountIdIn, notePasskeyUse, type GivenPasskey, type PasskeyOptions, type Passkeys } from './passkeys.js'
import type { PendingLogin, PendingLogins } from './pending-logins.js'
import type { RelyingParty } from './relying-party.js'
import { hasSecondFactor } from './second-factors.js'
import type { Device } from './session-record.js'
import type { NewSession, Sessions } from './sessions.js'
import type { SecondFactor, TwoFactor } from './two-factor.js'

export interface LoginParts {
  readonly accounts: AccountStore
  readonly passwords: Passwords
  readonly sessions: Sessions
  readonly pending: PendingLogins
  readonly limits: LoginLimits
  readonly devices: KnownDevices
  readonly twoFactor: TwoFactor
  readonly passkeys: Passkeys
  readonly log: LoginLog
}

type Purpose = Exclude<ChallengePurpose, 'add'>

export interface LoginPlace extends Device {
  /** Cookie of a device that has logged in before. */
  readonly deviceCookie: string | undefined
}

export interface Credential {
  readonly username: string
  readonly password: string
  /** True if the user wants to stay logged in. */
  readonly keep: boolean
}

export interface LoggedIn {
  readonly account: Account
  readonly session: NewSession
  readonly deviceCookie: string
}

/** The password was correct, and a second factor is required. */
export interface CodeRequest {
  readonly pendingToken: string
  /** True if the account has an authenticator app. */
  readonly hasApp: boolean
  readonly hasPasskey: boolean
}

/** Logs users in: counts, checks and records each attempt, and begins the session. */
export class Logins {
  constructor(private readonly parts: LoginParts) {}

  /**
   * First step of a login: checks name and password. All failures return the same answer after the same time.
   * @throws {BerthError} `login_failed`, `rate_limited`, `store_unavailable`
   */
  async login(credential: Credential, place: LoginPlace): Promise<LoggedIn | CodeRequest> {
    const account = await this.parts.accounts.findByName(credential.username)
    return this.loginTo(account, { ...credential, method: 'password' }, place)
  }

  /**
   * First step of a login if the account was already found, for example by its access code.
   * @param credential failed attempts are counted for its `username`
   */
  async loginTo(
    account: Account | undefined,
    credential: Credential & { method: LoginMethod },
    place: LoginPlace,
  ): Promise<LoggedIn | CodeRequest> {
    const { username, password, keep, method } = credential
    const { limits, passwords } = this.parts
    const trier = this.#trierOf(username, account, place)
    const about = { username, account, place, method }
    const claim = await this.#claimOf(trier)
    passwords.refuseExcess(claim)
    const attempt = await this.#counted(about, () => limits.enter(trier))
    const matches = await passwords
      .matches(account?.passwordHash, password, claim)
      .catch((error: unknown) => this.#giveUp(about, attempt, error))
    const reason = reasonOf(account, matches)
    if (account === undefined || reason !== '') throw await this.#refuse(about, reason || 'unknown_user')
    if (!hasSecondFactor(account)) {
      await attempt.succeeded()
      return this.#begin({ ...about, account }, keep)
    }
    // The counters are reset only after a correct code. Otherwise, attackers with the password could guess many codes.
    await attempt.abandoned()
    await this.#note(about, 'code_required')
    const pendingToken = await this.parts.pending.begin(account, keep)
    return { pendingToken, hasApp: account.totp !== undefined, hasPasskey: (account.passkeys ?? []).length > 0 }
  }

  /**
   * Second step of a login: checks the code, recovery code or passkey.
   * @throws {BerthError} `login_expired` if the password is required again, `login_failed`, `rate_limited`,
   * `store_unavailable`
   */
  async second(pendingToken: string, given: SecondFactor, place: LoginPlace): Promise<LoggedIn> {
    const pending = await this.parts.pending.try(pendingToken)
    if (!pending) throw loginExpired()
    const account = await this.#accountOf(pending)
    const method = methodOf(given)
    const about = { username: account.username, account, place, method } as const
    const trier = this.#trierOf(account.username, account, place)
    const { limits } = this.parts
    const attempt = await this.#counted(about, () => limits.enter(trier, stepOf(given)))
    const used = await this.useSecondFactor(account, given)
    if (!used || !(await this.parts.pending.end(pending.digest))) throw await this.#refuse(about, reasonFor(given))
    await attempt.succeeded()
    await limits.completed(trier)
    return this.#begin({ ...about, account: used }, pending.keep)
  }

  /**
   * Options for a passkey in the second step of a login. @param address IP address of the browser
   * @throws {BerthError} `login_expired`, `invalid_state`, `rate_limited`
   */
  async passkeyOptions(pendingToken: string, party: RelyingParty, address: string): Promise<PasskeyOptions> {
    const pending = await this.parts.pending.peek(pendingToken)
    if (!pending) throw loginExpired()
    const account = await this.#accountOf(pending)
    if (!account.passkeys?.length)
      throw conflict('invalid_state', 'the account has no passkey: use another second factor')
    return this.parts.passkeys.optionsToLogIn(account, party, address)
  }

  /**
   * Logs in with a passkey instead of the password. The authenticator must have verified the user.
   * @throws {BerthError} `login_failed`, `rate_limited`, `store_unavailable`
   */
  async withPasskey(given: GivenPasskey, keep: boolean, place: LoginPlace): Promise<LoggedIn> {
    const { accounts, limits } = this.parts
    const accountId = accountIdIn(given.passkey)
    const found = accountId === 0 ? undefined : await accounts.find(accountId)
    // A passkey that the account does not have must not cause a failed login of the account.
    const account = found?.passkeys?.some(({ id }) => id === given.passkey.id) ? found : undefined
    const username = account?.username ?? ''
    const about = { username, account, place, method: 'passkey' } as const
    const attempt = await this.#counted(about, () => limits.enter(this.#trierOf(username, account, place), 'passkey'))
    const used = account && (await this.#usePasskey(account, given, 'login'))
    if (!used) throw await this.#refuse(about, account ? 'wrong_passkey' : 'unknown_user')
    if (!isUsable(used, steadyClock.now())) throw await this.#refuse(about, used.disabled ? 'disabled' : 'expired')
    await attempt.succeeded()
    return this.#begin({ ...about, account: used }, keep)
  }

  /** @throws {BerthError} `login_expired` */
  async #accountOf(pending: PendingLogin): Promise<Account> {
    const account = await this.parts.accounts.find(pending.accountId)
    if (!account || account.generation !== pending.generation) throw loginExpired()
    if (!isUsable(account, steadyClock.now())) throw loginExpired()
    return account
  }

  /**
   * Records the use of a code or passkey. If two requests use it at the same time, only one of them succeeds.
   * @param purpose purpose for which the challenge of a passkey was created
   * @returns the changed account; `undefined`: the code or passkey is wrong
   */
  async useSecondFactor(account: Account, given: SecondFactor, purpose: Purpose = 'second') {
    if ('passkey' in given) return this.#usePasskey(account, given, purpose)
    return this.#change(account, (now) => this.parts.twoFactor.use(now, given))
  }

  /** Checks a passkey and stores its counter. @returns the changed account; `undefined`: the passkey is wrong */
  async #usePasskey(account: Account, given: GivenPasskey, purpose: Purpose): Promise<Account | undefined> {
    const used = await this.parts.passkeys.use(account, given, purpose)
    return used && this.#change(account, (now) => notePasskeyUse(now, used))
  }

  /** Changes an account unless `plan` returns `undefined`. */
  async #change(account: Account, plan: (now: Account) => Account | undefined): Promise<Account | undefined> {
    try {
      return await this.parts.accounts.change<AccountKind>(account.kind, account.id, (now) => {
        const changed = plan(now)
        if (changed === undefined) throw loginFailed('totp')
        return changed
      })
    } catch (error) {
      if (error instanceof BerthError && error.code === 'login_failed') return undefined
      throw error
    }
  }

  /** Logs in a user whose identity was proved in another way. @throws {BerthError} `store_unavailable` */
  begin(account: Account, method: LoginMethod, place: LoginPlace): Promise<LoggedIn> {
    return this.#begin({ username: account.username, account, method, place }, false)
  }

  async #begin(about: About & { account: Account }, keep: boolean): Promise<LoggedIn> {
    const { account, place } = about
    await this.#note(about, '')
    const session = await this.parts.sessions.begin(account, place, keep)
    await this.parts.limits.places.add(about.username, place.address)
    return { account, session, deviceCookie: this.parts.devices.add(place.deviceCookie, account) }
  }

  /** Looks up the address even if the device is known, so that all attempts take the same time. */
  async #claimOf({ username, address, device }: Trier): Promise<PasswordClaim> {
    const isKnownPlace = await this.parts.limits.places.has(username, address)
    return {
      account: username.toLowerCase(),
      source: sourceOf(address),
      known: device !== undefined || isKnownPlace,
    }
  }

  #trierOf(username: string, account: Account | undefined, { address, deviceCookie }: LoginPlace): Trier {
    const device = account && this.parts.devices.find(deviceCookie, account)
    return { username, address, device }
  }

  async #counted<T>(about: About, enter: () => Promise<T>): Promise<T> {
    try {
      return await enter()
    } catch (error) {
      if (error instanceof BerthError && error.code === 'rate_limited') await this.#note(about, 'rate_limited')
      throw error
    }
  }

  /** Removes an attempt from the counters if its password was not checked because too many logins were waiting. */
  async #giveUp(about: About, attempt: CountedAttempt, error: unknown): Promise<never> {
    await attempt.abandoned()
    if (error instanceof BerthError && error.code === 'rate_limited') await this.#note(about, 'rate_limited')
    throw error
  }

  async #refuse(about: About, reason: LoginReason): Promise<BerthError> {
    await this.#note(about, reason)
    return loginFailed(about.method)
  }

  async #note({ username, account, place, method }: About, reason: LoginReason | ''): Promise<void> {
    const { address, userAgent } = place
    const attempt = {
      username: account?.username ?? loggedName(username),
      accountId: account?.id ?? 0,
      address,
      userAgent: loggedAgent(userAgent),
      method,
      reason,
    }
    await this.parts.log.note(attempt, account && rootAccountOf(account))
  }
}

interface About {
  readonly username: string
  readonly account: Account | undefined
  readonly place: LoginPlace
  readonly method: LoginMethod
}

function reasonOf(account: Account | undefined, matches: boolean): LoginReason | '' {
  if (account === undefined) return 'unknown_user'
  if (account.passwordHash === '') return 'no_password'
  if (!matches) return 'wrong_password'
  if (account.disabled) return 'disabled'
  return isUsable(account, steadyClock.now()) ? '' : 'expired'
}

function methodOf(given: SecondFactor): LoginMethod {
  if ('passkey' in given) return 'passkey'
  return 'code' in given ? 'totp' : 'recovery_code'
}

function reasonFor(given: SecondFactor): LoginReason {
  return 'passkey' in given ? 'wrong_passkey' : 'wrong_code'
}

/** Returns the step that counts the attempt. Recovery codes count separately, so that TOTP guesses never block them. */
export function stepOf(given: SecondFactor): LoginStep {
  if ('passkey' in given) return 'passkey'
  return 'code' in given ? 'code' : 'recovery'
}

function loginFailed(method: LoginMethod): BerthError {
  const what = method === 'password' ? 'user name or password' : method === 'passkey' ? 'passkey' : 'code'
  return new BerthError('unauthenticated', 'login_failed', `wrong ${what}`)
}

function loginExpired(): BerthError {
  return new BerthError('unauthenticated', 'login_expired', 'the login has expired: log in with the password again')
}
