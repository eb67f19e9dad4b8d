import { conflict } from '../../shared/errors.js'
import { roleOf, type AdminAccount } from './account-record.js'

/** True if the administrator can log in and has all rights. */
function isUsable(admin: AdminAccount): boolean {
  return !admin.disabled && admin.passwordHash !== '' && roleOf(admin) === 'full'
}

/**
 * Checks that at least one administrator is left who has all rights and can log in.
 * @param without the account that is removed or disabled, or gets a lower role
 * @throws {BerthError} `invalid_state` if nobody could log in with all rights
 */
export function checkAdminLeft(all: readonly AdminAccount[], without: AdminAccount): void {
  if (!isUsable(without)) return
  if (all.some((one) => one.id !== without.id && isUsable(one))) return
  throw conflict('invalid_state', 'this is the last full administrator who can log in: create another one first')
}
