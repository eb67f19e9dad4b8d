import { BerthError, conflict, invalidField, notFound } from '../../shared/errors.js'
import { sourceOf } from '../../shared/source-address.js'
import { createTimeFormat } from '../../shared/time.js'
import type { Store } from '../store/store.js'
import type { Account, AccountKind } from './account-record.js'
import type { AccountStore } from './account-store.js'
import type { KnownDevices } from './known-devices.js'
import type { LoginLimits } from './login-limits.js'
import { stepOf, type LoggedIn, type LoginPlace, type Logins } from './logins.js'
import { checkNewPassword, type PasswordClaim, type Passwords } from './passwords.js'
import { hasSecondFactor, withoutTotp, withRecovery } from './second-factors.js'
import type { Session, Sessions } from './sessions.js'
import type { SecondFactor, TwoFactor } from './two-factor.js'

/** Time limit in ms for the set-up of a second factor. */
const enrolmentMs = 10 * 60_000

export interface OwnAccountParts {
  readonly store: Store
  readonly accounts: AccountStore
  readonly passwords: Passwords
  readonly sessions: Sessions
  readonly limits: LoginLimits
  readonly devices: KnownDevices
  readonly logins: Logins
  readonly twoFactor: TwoFactor
}

/** A credential with which users confirm a change of their own account. */
export type Proof = { readonly password: string } | SecondFactor

/** Changes of users to their own accounts. All methods can throw BerthError `store_unavailable`. */
export class OwnAccount {
  constructor(private readonly parts: OwnAccountParts) {}

  /**
   * Changes the password and ends all other sessions.
   * @returns the new session of the caller
   * @throws {BerthError} `invalid_field`, `confirmation_failed`, `rate_limited`
   */
  async changePassword(
    session: Session,
    { current, next }: { current: string; next: string },
    place: LoginPlace,
  ): Promise<LoggedIn> {
    const { account } = session
    checkNewPassword(next, account)
    await this.#prove(session, { password: current }, place)
    const passwordHash = await this.parts.passwords.hash(next, claimOf(account, place))
    return this.#restart(session, place, (now) => ({ ...now, passwordHash }))
  }

  /**
   * Checks the password, code or passkey that the user has given again. If it is right, records this in the session.
   * @throws {BerthError} `confirmation_failed`, `rate_limited`
   */
  async confirm(session: Session, proof: Proof, place: LoginPlace): Promise<void> {
    await this.#prove(session, proof, place)
    await this.parts.sessions.confirm(session)
  }

  /**
   * Starts the set-up of a second factor. Discards an earlier set-up that was not completed.
   * @param issuer name of the provider, for authenticator apps
   * @throws {BerthError} `invalid_state`
   */
  async beginTwoFactor(account: Account, issuer: string): Promise<{ secret: string; uri: string }> {
    refuseSecond(account)
    const { store, twoFactor } = this.parts
    const secret = twoFactor.makeSecret()
    await store.run('start the setup of a second factor', (client) =>
      client.set(this.#enrolmentKey(account.id), twoFactor.seal(secret, account.id), {
        expiration: { type: 'PX', value: enrolmentMs },
      }),
    )
    return { secret, uri: twoFactor.uriOf(secret, account.username, issuer) }
  }

  /**
   * Completes the set-up of the second factor with its first code. Ends all other sessions.
   * @returns the recovery codes, which are shown only once, and the new session of the caller
   * @throws {BerthError} `invalid_field` for a wrong code, `invalid_state`, `not_found` if the session has just ended
   */
  async confirmTwoFactor(
    session: Session,
    code: string,
    place: LoginPlace,
  ): Promise<{ codes: string[]; loggedIn: LoggedIn }> {
    const { store, twoFactor } = this.parts
    const { account } = session
    refuseSecond(account)
    const sealed = await store.run('read the setup of a second factor', (client) =>
      client.get(this.#enrolmentKey(account.id)),
    )
    if (sealed === null)
      throw conflict('invalid_state', 'start the setup of the second factor first: POST /account/totp')
    const step = twoFactor.findStep(twoFactor.open(sealed, account.id), code, 0)
    if (step === undefined)
      throw new BerthError('invalid', 'invalid_field', 'code: wrong code, check the clock of the device', {
        field: 'code',
      })
    const { totp, codes } = twoFactor.begin(sealed, step)
    const loggedIn = await this.#restart(session, place, (now) => {
      refuseSecond(now)
      const { recovery: _replaced, ...rest } = now
      return { ...rest, totp }
    })
    await store.run('complete the setup of a second factor', (client) => client.del(this.#enrolmentKey(account.id)))
    return { codes, loggedIn }
  }

  /**
   * Replaces all recovery codes. Sessions continue, because no rights change.
   * @returns the new codes, which are shown only once
   * @throws {BerthError} `invalid_state`, `not_found` if the session has just ended
   */
  async renewRecoveryCodes({ account }: Session): Promise<string[]> {
    const { accounts, twoFactor } = this.parts
    const { recovery, codes } = twoFactor.makeRecoveryCodes()
    await accounts.change<AccountKind>(account.kind, account.id, (now) => {
      if (now.generation !== account.generation) throw notFound('session')
      if (!hasSecondFactor(now)) throw noSecondFactor()
      return withRecovery(now, recovery)
    })
    return codes
  }

  /**
   * Sets the time zone in which the panel shows times. Sessions continue.
   * @param zone IANA name; "": the time zone of the browser
   * @throws {BerthError} `invalid_field`, `not_found` if the session has just ended
   */
  async setTimeZone({ account }: Session, zone: string): Promise<void> {
    checkTimeZone(zone)
    await this.parts.accounts.change<AccountKind>(account.kind, account.id, (now) => {
      if (now.generation !== account.generation) throw notFound('session')
      const { timeZone: _, ...rest } = now
      return zone === '' ? rest : { ...rest, timeZone: zone }
    })
  }

  /** Removes the authenticator app and ends all other sessions. @throws {BerthError} `invalid_state` */
  async removeTwoFactor(session: Session, place: LoginPlace): Promise<LoggedIn> {
    return this.#restart(session, place, (now) => {
      if (now.totp === undefined) throw noSecondFactor()
      return withoutTotp(now)
    })
  }

  /** Changes the account, ends its other sessions and forgets its known devices. */
  async #restart(session: Session, place: LoginPlace, plan: (account: Account) => Account): Promise<LoggedIn> {
    const { account, session: next } = await this.parts.sessions.restart(session, place, plan)
    return { account, session: next, deviceCookie: this.parts.devices.add(place.deviceCookie, account) }
  }

  /** Checks a credential. Failures count as failed logins, so that a stolen cookie does not allow guessing. */
  async #prove({ account }: Session, proof: Proof, place: LoginPlace): Promise<void> {
    const { devices, limits } = this.parts
    const device = devices.find(place.deviceCookie, account)
    const trier = { username: account.username, address: place.address, device }
    const attempt = await limits.enter(trier, 'password' in proof ? 'password' : stepOf(proof))
    if (!(await this.#isProof(account, proof, place)))
      throw new BerthError(
        'forbidden',
        'confirmation_failed',
        'passkey' in proof ? 'wrong passkey' : 'wrong password or code',
      )
    await attempt.succeeded()
  }

  async #isProof(account: Account, proof: Proof, place: LoginPlace): Promise<boolean> {
    if ('password' in proof)
      return this.parts.passwords.matches(account.passwordHash, proof.password, claimOf(account, place))
    return (await this.parts.logins.useSecondFactor(account, proof, 'confirm')) !== undefined
  }

  /** Returns the Redis key that stores a second factor's encrypted secret until its set-up is complete. */
  #enrolmentKey(accountId: number): string {
    return this.parts.store.key('totp-enrolment', accountId)
  }
}

/** @throws {BerthError} `invalid_field` */
function checkTimeZone(zone: string): void {
  if (zone === '' || isZone(zone)) return
  throw invalidField('time_zone', 'time_zone: must be the IANA name of a time zone, for example "Europe/Berlin"')
}

/** Returns false for UTC offsets such as `+02:00`, which only some JavaScript engines accept. */
function isZone(zone: string): boolean {
  try {
    return /^[A-Za-z]/.test(zone) && createTimeFormat(zone).zone !== ''
  } catch {
    return false
  }
}

/** Logged-in users count as known, so that their requests run before requests of strangers (see `FairGate`). */
function claimOf({ username }: Account, { address }: LoginPlace): PasswordClaim {
  return { account: username.toLowerCase(), source: sourceOf(address), known: true }
}

function noSecondFactor(): BerthError {
  return conflict('invalid_state', 'no second factor is set up')
}

function refuseSecond({ totp }: Account): void {
  if (totp !== undefined) throw conflict('invalid_state', 'a second factor is already set up: remove it first')
}
