import type { Guests, SessionPrincipal } from '../access/principal.js'
import type { SubUserBounds } from '../access/sub-user-bounds.js'
import { scopesOf } from '../access/roles.js'
import { refOf, roleOf, rootAccountOf, type Account, type SubUserAccount } from './account-record.js'
import { userOf, type Session } from './sessions.js'

interface Grant {
  readonly scopes: readonly string[]
  readonly guests: Guests
  readonly subUser?: SubUserBounds
}

/** Caches the rights of each account, because creating the set of its guests for each request would be slow. */
const grants = new WeakMap<Account, Grant>()

/**
 * Returns the caller of a session, with the present rights of its account. If an administrator views the account, the
 * administrator is the caller, with the rights of the account.
 */
export function principalOf(session: Session, mustEnrol: boolean): SessionPrincipal {
  const { digest, record, account } = session
  const user = userOf(session)
  return {
    kind: 'session',
    ref: refOf(user),
    root: rootAccountOf(user),
    user: user.username,
    ...(session.viewer && { viewed: { ref: refOf(account), user: account.username } }),
    accountId: account.id,
    accountKind: account.kind,
    sessionDigest: digest,
    confirmedAtMs: record.confirmedAtMs,
    mustEnrol,
    ...grantOf(account),
  }
}

function grantOf(account: Account): Grant {
  const known = grants.get(account)
  if (known) return known
  const grant: Grant =
    account.kind === 'admin'
      ? { scopes: scopesOf(roleOf(account)), guests: 'all' }
      : { scopes: account.scopes, guests: new Set(account.containerUuids), subUser: boundsOf(account) }
  grants.set(account, grant)
  return grant
}

function boundsOf({ imageIds, portMappingLimit }: SubUserAccount): SubUserBounds {
  return { images: imageIds === null ? undefined : new Set(imageIds), portMappingLimit }
}
