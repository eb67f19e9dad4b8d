import type { Logger } from 'pino'
import type { SessionCallers } from '../access/contract.js'
import type { Store } from '../store/store.js'
import { AccountSettings } from './account-settings.js'
import { AccountStore } from './account-store.js'
import { Admins } from './admins.js'
import { KnownDevices } from './known-devices.js'
import { LoginLimits } from './login-limits.js'
import { LoginLog, type LoginRetention } from './login-log.js'
import { Logins } from './logins.js'
import { OwnAccount } from './own-account.js'
import { OwnPasskeys } from './own-passkeys.js'
import { PasskeyChallenges } from './passkey-challenges.js'
import { Passkeys } from './passkeys.js'
import { Passwords } from './passwords.js'
import { PendingLogins } from './pending-logins.js'
import { SessionCookies } from './session-callers.js'
import { CsrfValues } from './session-secret.js'
import { Sessions } from './sessions.js'
import { SshKeys } from './ssh-keys.js'
import { TwoFactor } from './two-factor.js'

export interface AccountsOptions {
  /** Store of the accounts. It must not have been started yet. */
  readonly store: Store
  /** 32 secret bytes, the same in all gateways on one store. */
  readonly secret: Buffer
  readonly retention: LoginRetention
  readonly log: Logger
}

export interface Accounts {
  readonly accounts: AccountStore
  readonly passwords: Passwords
  readonly sessions: Sessions
  readonly csrf: CsrfValues
  readonly settings: AccountSettings
  readonly logins: Logins
  readonly loginLog: LoginLog
  readonly own: OwnAccount
  readonly passkeys: Passkeys
  readonly ownPasskeys: OwnPasskeys
  readonly admins: Admins
  readonly sshKeys: SshKeys
  readonly callers: SessionCallers
}

export function createAccounts({ store, secret, retention, log }: AccountsOptions): Accounts {
  const accounts = new AccountStore(store)
  const sessions = new Sessions(store, accounts)
  const passwords = new Passwords()
  const settings = new AccountSettings(store, log)
  const csrf = new CsrfValues(secret)
  const loginLog = new LoginLog(store, retention)
  const limits = new LoginLimits(store)
  const devices = new KnownDevices(secret)
  const twoFactor = new TwoFactor(secret)
  const pending = new PendingLogins(store)
  const passkeys = new Passkeys(new PasskeyChallenges(store))
  const shared = { store, accounts, passwords, sessions, pending, limits }
  const parts = { ...shared, devices, twoFactor, passkeys, log: loginLog }
  const logins = new Logins(parts)
  return {
    accounts,
    passwords,
    sessions,
    csrf,
    settings,
    logins,
    loginLog,
    own: new OwnAccount({ ...parts, logins }),
    passkeys,
    ownPasskeys: new OwnPasskeys(parts),
    admins: new Admins(parts),
    sshKeys: new SshKeys(store, accounts),
    callers: new SessionCookies(sessions, csrf, settings),
  }
}
