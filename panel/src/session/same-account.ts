import type { Session } from '../api/types.ts'

type Account = Pick<Session, 'kind' | 'username'>

/** True if two sessions belong to one account. Administrators and customers can have the same name. */
export function isSameAccount(one: Account, other: Account): boolean {
  return one.kind === other.kind && one.username === other.username
}
