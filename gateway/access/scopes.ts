import { BerthError } from '../../shared/errors.js'
import type { Authorize } from './contract.js'

const verbs = {
  dashboard: ['read'],
  host: ['read', 'manage'],
  routing: ['read', 'write'],
  ipv6: ['read', 'assign'],
  task: ['read', 'delete'],
  container: [
    'read',
    'create',
    'power',
    'reinstall',
    'delete',
    'resize',
    'traffic',
    'password',
    'network',
    'suspend',
    'label',
  ],
  snapshot: ['read', 'create', 'delete', 'restore', 'schedule'],
  backup: ['read', 'create', 'delete', 'restore', 'schedule'],
  backuptarget: ['read', 'manage'],
  terminal: ['ssh', 'vnc'],
  image: ['read', 'download', 'delete', 'toggle'],
  security: ['read', 'check', 'settings'],
  swap: ['read', 'manage'],
  subuser: ['read', 'create', 'update'],
  audit: ['read'],
  metrics: ['read'],
  loginlog: ['read'],
  apikey: ['read', 'create', 'update', 'delete'],
  webhook: ['manage'],
  admin: ['access'],
} as const

export const everything = '*'

/** Scopes that routes may require, in the order of `verbs`. */
export const scopeCatalogue: readonly string[] = Object.entries(verbs).flatMap(([area, list]) =>
  list.map((verb) => `${area}:${verb}`),
)

/** Scopes that a key may have: single scopes, a wildcard for each area, and the wildcard for everything. */
const grantable = new Set([everything, ...Object.keys(verbs).map((area) => `${area}:*`), ...scopeCatalogue])

/** Default scopes of a new key. */
export const defaultScopes: readonly string[] = [
  'dashboard:read',
  'host:read',
  'routing:read',
  'ipv6:read',
  'task:read',
  'container:read',
  'snapshot:read',
  'image:read',
]

export function isGrantable(scope: string): boolean {
  return grantable.has(scope)
}

/** True if `granted` allows `scope`. Both parameters can contain a wildcard. */
export function coversScope(granted: readonly string[], scope: string): boolean {
  const areaWildcard = `${scope.slice(0, scope.indexOf(':'))}:*`
  return granted.some((grant) => grant === scope || grant === everything || grant === areaWildcard)
}

export function intersectScopes(a: readonly string[], b: readonly string[]): string[] {
  const both = [...a.filter((scope) => coversScope(b, scope)), ...b.filter((scope) => coversScope(a, scope))]
  return [...new Set(both)]
}

/** Checks a scope. `public` has no requirement, `any` requires a valid caller, and `session` a logged-in user. */
export const authorize: Authorize = (caller, scope) => {
  if (scope === 'public') return
  if (scope === 'session') {
    if (caller.kind === 'session') return
    throw new BerthError('forbidden', 'insufficient_scope', 'only available with a login session, not with an API key')
  }
  if (caller.kind === 'session' && caller.mustEnrol)
    throw new BerthError(
      'forbidden',
      'two_factor_required',
      'set up a second factor first: POST /account/totp or POST /account/passkeys',
    )
  if (scope === 'any' || coversScope(caller.scopes, scope)) return
  throw new BerthError('forbidden', 'insufficient_scope', `this request requires the scope ${scope}`)
}
