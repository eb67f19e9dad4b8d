import { BerthError } from '../../shared/errors.js'
import type { Principal } from './principal.js'
import { coversScope, everything, scopeCatalogue } from './scopes.js'

/*
 * Roles of administrators. A role is a fixed list of scopes, so that every route enforces it like the scopes of a key.
 */

export const roles = ['full', 'operator', 'support', 'read_only'] as const
export type Role = (typeof roles)[number]

/** Areas of scopes that only full administrators have. With these scopes, callers could give themselves more rights. */
const reservedAreas: readonly string[] = ['apikey', 'admin']

const operatorScopes = scopeCatalogue.filter((scope) => !reservedAreas.includes(scope.split(':')[0]!))
const readScopes = operatorScopes.filter((scope) => scope.endsWith(':read'))
/** Scopes of changes that help customers, but create, resize or remove nothing that customers own. */
const supportScopes = [
  ...(['container:power', 'container:password', 'container:network', 'container:label'] as const),
  ...(['snapshot:create', 'backup:create', 'security:check', 'terminal:ssh', 'terminal:vnc'] as const),
]

const scopesByRole: Readonly<Record<Role, readonly string[]>> = {
  full: [everything],
  operator: operatorScopes,
  support: [...readScopes, ...supportScopes],
  read_only: readScopes,
}

export function scopesOf(role: Role): readonly string[] {
  return scopesByRole[role]
}

/**
 * Checks that the caller has all rights of a role that it gives to an administrator.
 * @throws {BerthError} `insufficient_scope`
 */
export function checkMayGive({ scopes }: Pick<Principal, 'scopes'>, role: Role): void {
  if (scopesOf(role).every((scope) => coversScope(scopes, scope))) return
  throw new BerthError('forbidden', 'insufficient_scope', 'role: exceeds the rights of the caller', { field: 'role' })
}
