import { BerthError } from '../../shared/errors.js'
import type { Principal } from '../access/principal.js'
import { coversScope } from '../access/scopes.js'
import { innerPortsScope } from '../access/sub-user-bounds.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Route } from './route.js'

/* The one place that confines sub-users to the routes that are for them, and to reads of blocked containers. */

/** @throws {BerthError} `insufficient_scope` when the route is not for sub-users */
export function refuseSubUser(route: Pick<Route, 'subUser'>, caller: Principal): void {
  if (caller.subUser && (route.subUser ?? 'refused') === 'refused')
    throw new BerthError('forbidden', 'insufficient_scope', 'not available for sub-users')
}

/** The scope that a caller needs. A sub-user that lacks the scope of the route may have its restricted form instead. */
export function scopeFor({ scope, subUser }: Pick<Route, 'scope' | 'subUser'>, caller: Principal): string {
  const narrow = caller.subUser !== undefined && subUser === 'inner' && !coversScope(caller.scopes, scope)
  return narrow ? innerPortsScope : scope
}

/** True if a sub-user may change only the targets of mappings. */
export function isConfinedToInnerPorts(caller: Principal): boolean {
  return caller.subUser !== undefined && !coversScope(caller.scopes, 'container:network')
}

/**
 * A sub-user may only read a blocked container.
 * @throws {BerthError} `policy_blocked`
 */
export function refuseBlocked(route: Pick<Route, 'method' | 'audit'>, caller: Principal, guest: Guest): void {
  const reads = route.method === 'GET' || route.audit === false
  if (!caller.subUser || !guest.policyBlocked || reads) return
  throw new BerthError('forbidden', 'policy_blocked', 'the container is blocked: sub-users can only read it')
}
