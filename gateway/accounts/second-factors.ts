import type { Account } from './account-record.js'

/** True if each login with the password also needs a code, a recovery code or a passkey. */
export function hasSecondFactor({ totp, passkeys = [] }: Pick<Account, 'totp' | 'passkeys'>): boolean {
  return totp !== undefined || passkeys.length > 0
}

/** Digests of the unused recovery codes of an account. */
export function recoveryOf({ totp, recovery }: Pick<Account, 'totp' | 'recovery'>): readonly string[] {
  return totp?.recovery ?? recovery ?? []
}

/** Returns the account with other recovery codes. */
export function withRecovery<A extends Account>(account: A, recovery: readonly string[]): A {
  const { totp } = account
  return totp === undefined ? { ...account, recovery } : { ...account, totp: { ...totp, recovery } }
}

export function withoutTotp(account: Account): Account {
  const { totp: _, ...rest } = account
  return withoutUnused({ ...rest, recovery: recoveryOf(account) })
}

/** @param id id of the passkey */
export function withoutPasskey(account: Account, id: string): Account {
  return withoutUnused({ ...account, passkeys: (account.passkeys ?? []).filter((passkey) => passkey.id !== id) })
}

export function withoutPasskeys<A extends Account>(account: A): A {
  return withoutUnused({ ...account, passkeys: [] })
}

export function withoutSecondFactors<A extends Account>(account: A): A {
  const { totp: _totp, passkeys: _passkeys, recovery: _recovery, ...rest } = account
  return rest as A // the result is complete, because only optional fields are removed
}

/** Removes the recovery codes together with the last second factor. */
function withoutUnused<A extends Account>(account: A): A {
  return hasSecondFactor(account) ? account : withoutSecondFactors(account)
}
