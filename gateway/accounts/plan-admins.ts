import { conflict } from '../../shared/errors.js'
import type { AdminAccount } from './account-record.js'

/** True if the administrator can log in. */
function isUsable({ disabled, passwordHash }: AdminAccount): boolean {
  return !disabled && passwordHash !== ''
}

/**
 * @param without the account to remove or disable
 * @throws {BerthError} `invalid_state` when nobody could log in any more
 */
export function checkAdminLeft(all: readonly AdminAccount[], without: AdminAccount): void {
  if (!isUsable(without)) return
  if (all.some((one) => one.id !== without.id && isUsable(one))) return
  throw conflict('invalid_state', 'this is the last administrator who can log in: create another one first')
}
