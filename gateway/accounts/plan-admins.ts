import { conflict } from '../../shared/errors.js'
import type { AdminAccount } from './account-record.js'

/** True if the administrator can log in. */
function isUsable({ disabled, passwordHash }: AdminAccount): boolean {
  return !disabled && passwordHash !== ''
}

/**
 * Checks that an administrator who can log in is left.
 * @param without the account to remove or disable
 * @throws {BerthError} `invalid_state` if nobody could log in
 */
export function checkAdminLeft(all: readonly AdminAccount[], without: AdminAccount): void {
  if (!isUsable(without)) return
  if (all.some((one) => one.id !== without.id && isUsable(one))) return
  throw conflict('invalid_state', 'this is the last administrator who can log in: create another one first')
}
