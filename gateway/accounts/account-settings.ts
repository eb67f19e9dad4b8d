import type { Logger } from 'pino'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import type { Account } from './account-record.js'
import { hasSecondFactor } from './second-factors.js'

export const twoFactorRules = ['none', 'admins', 'all'] as const

/** Kinds of accounts that must have a second factor. */
export type TwoFactorRule = (typeof twoFactorRules)[number]

/** Settings for logins, shared by all gateways. Create the object before `store.start()`. */
export class AccountSettings {
  readonly requireTwoFactor: StoredDocument<TwoFactorRule>

  constructor(store: Store, log: Logger) {
    const initial: TwoFactorRule = 'none'
    this.requireTwoFactor = new StoredDocument<TwoFactorRule>({ store, name: 'require-2fa', initial, log })
  }

  /** True if the account must set up a second factor before it may do anything else. */
  mustEnrol(account: Account): boolean {
    const rule = this.requireTwoFactor.current
    return !hasSecondFactor(account) && (rule === 'all' || (rule === 'admins' && account.kind === 'admin'))
  }
}
