import { BerthError } from '../../shared/errors.js'
import type { Principal } from '../access/principal.js'
import { coversScope } from '../access/scopes.js'
import { innerPortsScope } from '../access/sub-user-bounds.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Route } from './route.js'

/* Restricts sub-users to the routes that are open to them. Sub-users can only read a suspended container. */

/** @throws {BerthError} `insufficient_scope` if the route is not open to sub-users */
export function refuseSubUser(route: Pick<Route, 'subUser'>, caller: Principal): void {
  if (caller.subUser && (route.subUser ?? 'refused') === 'refused')
    throw new BerthError('forbidden', 'insufficient_scope', 'not available for sub-users')
}

/** Returns the scope that the caller needs for the route. On some routes, `innerPortsScope` is enough for sub-users. */
export function scopeFor({ scope, subUser }: Pick<Route, 'scope' | 'subUser'>, caller: Principal): string {
  const narrow = caller.subUser !== undefined && subUser === 'inner' && !coversScope(caller.scopes, scope)
  return narrow ? innerPortsScope : scope
}

/** True if the caller is a sub-user who may only change the container ports of mappings. */
export function isConfinedToInnerPorts(caller: Principal): boolean {
  return caller.subUser !== undefined && !coversScope(caller.scopes, 'container:network')
}

/** Rejects changes of a suspended container by sub-users. @throws {BerthError} `policy_blocked` */
export function refuseBlocked(route: Pick<Route, 'method' | 'audit'>, caller: Principal, guest: Guest): void {
  const reads = route.method === 'GET' || route.audit === false
  if (!caller.subUser || !guest.policyBlocked || reads) return
  throw new BerthError(
    'forbidden',
    'policy_blocked',
    'the container is blocked: sub-users can view it, but cannot change or use it',
  )
}
