import type { SubUserAccount } from '../accounts/account-record.js'
import { checkCreationLimit, type CreationLimit } from '../access/creation-limits.js'
import { creationShareOf, maySee, type Principal } from '../access/principal.js'
import { coversScope } from '../access/scopes.js'
import { defaultPermissions, innerPortsScope } from '../access/sub-user-bounds.js'
import { BerthError, conflict, notFound } from '../../shared/errors.js'

/*
 * Decides which callers may create and change a sub-user: no caller can give it more rights than its own, or take over
 * one with more rights.
 */

/** The rights of a sub-user, as set by its managers. */
export type SubUserTerms = Pick<
  SubUserAccount,
  'username' | 'scopes' | 'containerUuids' | 'imageIds' | 'portMappingLimit' | 'expiresAtMs' | 'disabled'
>

/** Fields in a request; absent ones are not requested. */
export type SubUserFields = { readonly [Name in keyof SubUserTerms]?: SubUserTerms[Name] | undefined }

/** Default number of host ports that may lead to one of its containers. */
const defaultPortMappings = 10

/**
 * Plans the terms of a new sub-user. By default it gets all permissions of its creator that a sub-user can have.
 * @throws {BerthError} `insufficient_scope` if the creator has no such permission, or lacks a requested one
 */
export function planTerms(
  fields: SubUserFields & { username: string; containerUuids: readonly string[] },
  maker: Principal,
): SubUserTerms {
  const scopes = fields.scopes ?? defaultPermissions.filter((scope) => mayGive(maker, scope))
  if (fields.scopes === undefined && scopes.length === 0)
    throw forbidden('the caller has no permission that a sub-user can have', 'permissions')
  return checkWithinReach(maker, {
    username: fields.username,
    scopes,
    containerUuids: fields.containerUuids,
    imageIds: fields.imageIds ?? null,
    portMappingLimit: fields.portMappingLimit ?? defaultPortMappings,
    expiresAtMs: fields.expiresAtMs ?? 0,
    disabled: fields.disabled ?? false,
  })
}

/**
 * Plans an account after a change.
 * @throws {BerthError} `not_found`, `insufficient_scope`
 */
export function planSubUserChange(account: SubUserAccount, fields: SubUserFields, caller: Principal): SubUserAccount {
  checkManageable(caller, account)
  const sent = Object.entries(fields).filter(([, value]) => value !== undefined)
  const changed = { ...account, ...(Object.fromEntries(sent) as Partial<SubUserTerms>) }
  return checkWithinReach(caller, changed)
}

/** True if a caller may see that this sub-user exists: all of its containers must be the caller's. */
export function maySeeSubUser(caller: Principal, { containerUuids }: SubUserTerms): boolean {
  if (caller.guests === 'all') return true
  return containerUuids.length > 0 && containerUuids.every((uuid) => maySee(caller, uuid))
}

/**
 * The password gives all rights of the account: only a caller with all of these may set a new one.
 * @throws {BerthError} `not_found`, `insufficient_scope`
 */
export function checkManageable(caller: Principal, terms: SubUserTerms): void {
  if (!maySeeSubUser(caller, terms)) throw notFound('sub-user')
  const missing = terms.scopes.find((scope) => !mayGive(caller, scope))
  if (missing) throw forbidden(`this sub-user has the permission ${missing}, which the caller does not have`)
}

function checkWithinReach<T extends SubUserTerms>(caller: Principal, terms: T): T {
  const missing = terms.scopes.find((scope) => !mayGive(caller, scope))
  if (missing) throw forbidden(`permissions: the caller does not have ${missing} itself`, 'permissions')
  if (!terms.containerUuids.every((uuid) => maySee(caller, uuid))) throw notFound('container')
  return terms
}

function mayGive({ scopes }: Principal, permission: string): boolean {
  return coversScope(scopes, permission === innerPortsScope ? 'container:network' : permission)
}

/** @throws {BerthError} `account_limit_reached` */
export function checkAccountLimit(all: readonly SubUserAccount[], maker: Principal, limit: CreationLimit): void {
  const shares = all.map(({ boundRoot, root }) => boundRoot ?? root ?? '')
  checkCreationLimit(creationShareOf(maker), shares, {
    code: 'account_limit_reached',
    name: 'sub-users',
    setting: 'sub_users',
    limit,
  })
}

/** Longest name, without the random end of names that bound callers choose. */
const boundNameLength = 57

/**
 * The name of a new account. Names that bound callers choose get a random end, whether they are in use or not: a
 * refusal would reveal names of others.
 * @param random letters and digits
 */
export function planUsername(asked: string, maker: Principal, random: string): string {
  return maker.guests === 'all' ? asked : `${asked.slice(0, boundNameLength)}-${random}`
}

function isNamed(username: string, asked: string, maker: Principal): boolean {
  const [has, wants] = [username.toLowerCase(), asked.toLowerCase()]
  if (has === wants) return true
  return maker.guests !== 'all' && has.replace(/-[a-z0-9]{6}$/, '') === wants.slice(0, boundNameLength)
}

/**
 * Finds an existing account for a creation request: with the same name, or else with the same containers.
 * @throws {BerthError} `invalid_state` if it exists with other terms than requested
 */
export function findSame(
  accounts: readonly SubUserAccount[],
  fields: SubUserFields & { containerUuids: readonly string[] },
  maker: Principal,
): SubUserAccount | undefined {
  const { username, containerUuids } = fields
  const found = accounts.find(
    (account) =>
      isSameSet(account.containerUuids, containerUuids) &&
      (username === undefined || isNamed(account.username, username, maker)),
  )
  if (found === undefined) return undefined
  const other = termsCompared.find((name) => fields[name] !== undefined && !isSame(found[name], fields[name]))
  if (other === undefined) return found
  throw conflict(
    'invalid_state',
    `sub-user ${found.username} already exists for these containers with other settings: change it with PATCH`,
  )
}

const termsCompared = ['scopes', 'imageIds', 'portMappingLimit', 'expiresAtMs', 'disabled'] as const

function isSame(a: unknown, b: unknown): boolean {
  return Array.isArray(a) && Array.isArray(b) ? isSameSet(a, b) : a === b
}

function isSameSet(a: readonly unknown[], b: readonly unknown[]): boolean {
  const [one, other] = [new Set(a), new Set(b)]
  return one.size === other.size && [...one].every((entry) => other.has(entry))
}

function forbidden(message: string, field?: string): BerthError {
  return new BerthError('forbidden', 'insufficient_scope', message, field === undefined ? {} : { field })
}
