import { BerthError } from '../../shared/errors.js'
import type { Principal } from '../access/principal.js'
import { isForSessions, type Route } from './route.js'

/* Rules for routes about sessions and about the caller's own account. */

/** Rejects API keys on routes for logged-in accounts. @throws {BerthError} `insufficient_scope` */
export function refuseKeys(route: Pick<Route, 'scope' | 'cookies'>, caller: Principal): void {
  if (caller.kind === 'key' && isForSessions(route))
    throw new BerthError('forbidden', 'insufficient_scope', 'only available with a login session, not with an API key')
}

/**
 * An administrator who sees the panel as a sub-user cannot change the account of the sub-user, such as its password. Such
 * routes have the scope `session`. @throws {BerthError} `insufficient_scope`
 */
export function refuseInView(
  { scope, method, path }: Pick<Route, 'scope' | 'method' | 'path'>,
  caller: Principal,
): void {
  if (!caller.viewed || scope !== 'session' || method === 'GET' || path === '/logout') return
  const message = 'the account of a sub-user cannot be changed in the view of an administrator'
  throw new BerthError('forbidden', 'insufficient_scope', message)
}
