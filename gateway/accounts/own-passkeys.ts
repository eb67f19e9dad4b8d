import { conflict, invalidField, notFound } from '../../shared/errors.js'
import type { RegistrationResponseJSON } from '@simplewebauthn/server'
import type { Account, AccountKind, PasskeyRecord } from './account-record.js'
import type { AccountStore } from './account-store.js'
import type { KnownDevices } from './known-devices.js'
import type { LoggedIn, LoginPlace } from './logins.js'
import { passkeyId, type PasskeyOptions, type Passkeys } from './passkeys.js'
import type { RelyingParty } from './relying-party.js'
import { hasSecondFactor, withoutPasskey, withRecovery } from './second-factors.js'
import type { Session, Sessions } from './sessions.js'
import type { TwoFactor } from './two-factor.js'

export const maxPasskeys = 20

export interface OwnPasskeysParts {
  readonly accounts: AccountStore
  readonly sessions: Sessions
  readonly devices: KnownDevices
  readonly twoFactor: TwoFactor
  readonly passkeys: Passkeys
}

/** A passkey as a browser has created it. */
export interface NewPasskey {
  readonly name: string
  readonly response: RegistrationResponseJSON
  readonly party: RelyingParty
}

export interface AddedPasskey {
  readonly passkey: PasskeyRecord
  /** Recovery codes, which are shown only once. Empty if the account already had a second factor. */
  readonly codes: readonly string[]
  readonly loggedIn: LoggedIn
}

/** Changes of users to their own passkeys. All methods can throw BerthError `store_unavailable`. */
export class OwnPasskeys {
  constructor(private readonly parts: OwnPasskeysParts) {}

  /** @throws {BerthError} `passkey_limit_reached` */
  begin(account: Account, party: RelyingParty, provider: string): Promise<PasskeyOptions> {
    refuseMore(account)
    return this.parts.passkeys.optionsToAdd(account, party, provider)
  }

  /**
   * Adds a passkey, and ends all other sessions. Creates recovery codes if the account had no second factor before.
   * @throws {BerthError} `invalid_field`, `name_conflict`, `passkey_limit_reached`
   */
  async add(session: Session, { name, response, party }: NewPasskey, place: LoginPlace): Promise<AddedPasskey> {
    const made = await this.parts.passkeys.check(session.account, response, party)
    if (made === undefined)
      throw invalidField('credential', 'credential: is not valid for this challenge and address: try again')
    const passkey = { ...made, name }
    const { recovery, codes } = this.parts.twoFactor.makeRecoveryCodes()
    let isFirst = false
    const loggedIn = await this.#restart(session, place, (now) => {
      isFirst = !hasSecondFactor(now)
      const changed = withPasskey(now, passkey)
      return isFirst ? withRecovery(changed, recovery) : changed
    })
    return { passkey, codes: isFirst ? codes : [], loggedIn }
  }

  /** @param id id in the API @throws {BerthError} `not_found`, `name_conflict` */
  async rename({ account }: Session, id: string, name: string): Promise<void> {
    await this.parts.accounts.change<AccountKind>(account.kind, account.id, (now) => {
      if (now.generation !== account.generation) throw notFound('session')
      const passkey = find(now, id)
      refuseName(now, name, passkey.id)
      return { ...now, passkeys: (now.passkeys ?? []).map((one) => (one === passkey ? { ...one, name } : one)) }
    })
  }

  /** Removes a passkey and ends all other sessions. @param id id in the API @throws {BerthError} `not_found` */
  async remove(session: Session, id: string, place: LoginPlace): Promise<LoggedIn> {
    return this.#restart(session, place, (now) => withoutPasskey(now, find(now, id).id))
  }

  async #restart(session: Session, place: LoginPlace, plan: (account: Account) => Account): Promise<LoggedIn> {
    const { account, session: next } = await this.parts.sessions.restart(session, place, plan)
    return { account, session: next, deviceCookie: this.parts.devices.add(place.deviceCookie, account) }
  }
}

function withPasskey(account: Account, passkey: PasskeyRecord): Account {
  const { passkeys = [] } = account
  refuseMore(account)
  refuseName(account, passkey.name, passkey.id)
  if (passkeys.some(({ id }) => id === passkey.id)) throw conflict('name_conflict', 'this passkey is already stored')
  return { ...account, passkeys: [...passkeys, passkey] }
}

function find({ passkeys = [] }: Account, id: string): PasskeyRecord {
  const found = passkeys.find((passkey) => passkeyId(passkey) === id)
  if (found === undefined) throw notFound('passkey')
  return found
}

function refuseName({ passkeys = [] }: Account, name: string, ownId: string): void {
  if (passkeys.some((one) => one.id !== ownId && one.name.toLowerCase() === name.toLowerCase()))
    throw conflict('name_conflict', `the account already has a passkey named ${name}`)
}

function refuseMore({ passkeys = [] }: Account): void {
  if (passkeys.length >= maxPasskeys)
    throw conflict('passkey_limit_reached', `the account already has ${maxPasskeys} passkeys: remove one first`)
}
