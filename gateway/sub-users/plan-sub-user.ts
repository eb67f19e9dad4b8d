import type { SubUserAccount } from '../accounts/account-record.js'
import { checkCreationLimit, type CreationLimit } from '../access/creation-limits.js'
import { creationShareOf, maySee, type Principal } from '../access/principal.js'
import { coversScope } from '../access/scopes.js'
import { defaultPermissions, innerPortsScope } from '../access/sub-user-bounds.js'
import { BerthError, conflict, invalidField, notFound } from '../../shared/errors.js'

/*
 * Decides which callers may create or change a sub-user. A caller needs all rights that the sub-user will get. For a
 * change, the caller also needs all rights that the sub-user has now.
 */

/** The rights of a sub-user. Only callers that may manage the sub-user set them. */
export type SubUserTerms = Pick<
  SubUserAccount,
  'username' | 'scopes' | 'containerUuids' | 'imageIds' | 'portMappingLimit' | 'expiresAtMs' | 'disabled'
>

/** Fields of a sub-user in a request. Absent fields were not part of the request. */
export type SubUserFields = { readonly [Name in keyof SubUserTerms]?: SubUserTerms[Name] | undefined }

/** Fields of a change. It replaces the containers (`containerUuids`), or adds some and removes others. */
export interface SubUserChange extends SubUserFields {
  readonly addedUuids?: readonly string[] | undefined
  readonly removedUuids?: readonly string[] | undefined
}

export const maxContainers = 1000

/** Default for the maximum number of host ports in the mappings of each container. */
const defaultPortMappings = 10

/**
 * Plans the terms of a new sub-user. By default, the sub-user gets all permissions of its creator that sub-users can
 * have.
 * @throws {BerthError} `insufficient_scope` if the creator has no such permission, or requests one that it lacks
 */
export function planTerms(
  fields: SubUserFields & { username: string; containerUuids: readonly string[] },
  maker: Principal,
): SubUserTerms {
  const scopes = fields.scopes ?? defaultPermissions.filter((scope) => mayGive(maker, scope))
  if (fields.scopes === undefined && scopes.length === 0)
    throw forbidden(
      'the caller cannot create sub-users, because it has no permission that a sub-user can have',
      'permissions',
    )
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

/** Plans a change of an account. @throws {BerthError} `not_found`, `insufficient_scope`, `invalid_field` */
export function planSubUserChange(account: SubUserAccount, change: SubUserChange, caller: Principal): SubUserAccount {
  checkManageable(caller, account)
  const { addedUuids = [], removedUuids = [], ...fields } = change
  const sent = Object.entries(fields).filter(([, value]) => value !== undefined)
  const changed = { ...account, ...(Object.fromEntries(sent) as Partial<SubUserTerms>) }
  const containerUuids = assign(changed.containerUuids, addedUuids, removedUuids)
  return checkWithinReach(caller, { ...changed, containerUuids })
}

function assign(before: readonly string[], added: readonly string[], removed: readonly string[]): readonly string[] {
  const after = [...new Set([...before, ...added])].filter((uuid) => !removed.includes(uuid))
  checkContainerCount(after.length)
  return after
}

/** @param count number of containers that a sub-user would have @throws {BerthError} `invalid_field` */
export function checkContainerCount(count: number): void {
  if (count > maxContainers)
    throw invalidField(
      'add_container_names',
      `add_container_names: the sub-user would have ${count} containers, at most ${maxContainers} are possible`,
    )
}

/** True if the caller may see the sub-user, which requires access to all containers of the sub-user. */
export function maySeeSubUser(caller: Principal, { containerUuids }: SubUserTerms): boolean {
  if (caller.guests === 'all') return true
  return containerUuids.length > 0 && containerUuids.every((uuid) => maySee(caller, uuid))
}

/**
 * Checks that the caller has all rights of the account, because a new password gives these rights.
 * @throws {BerthError} `not_found`, `insufficient_scope`
 */
export function checkManageable(caller: Principal, terms: SubUserTerms): void {
  if (!maySeeSubUser(caller, terms)) throw notFound('sub-user')
  const missing = terms.scopes.find((scope) => !mayGive(caller, scope))
  if (missing) throw forbidden(`this sub-user has the permission ${missing}, which the caller does not have`)
}

function checkWithinReach<T extends SubUserTerms>(caller: Principal, terms: T): T {
  const missing = terms.scopes.find((scope) => !mayGive(caller, scope))
  if (missing) throw forbidden(`permissions: the caller does not have the permission ${missing}`, 'permissions')
  if (!terms.containerUuids.every((uuid) => maySee(caller, uuid))) throw notFound('container')
  return terms
}

function mayGive({ scopes }: Principal, permission: string): boolean {
  return coversScope(scopes, permission === innerPortsScope ? 'container:network' : permission)
}

/** Checks that the creator may create another sub-user. @throws {BerthError} `account_limit_reached` */
export function checkAccountLimit(all: readonly SubUserAccount[], maker: Principal, limit: CreationLimit): void {
  const shares = all.map(({ boundRoot, root }) => boundRoot ?? root ?? '')
  checkCreationLimit(creationShareOf(maker), shares, {
    code: 'account_limit_reached',
    name: 'sub-users',
    setting: 'sub_users',
    limit,
  })
}

/** Maximum length of a name, without the random suffix, if a caller that is restricted to containers chooses it. */
const boundNameLength = 57

/**
 * Returns the name of a new account. If the creator is restricted to containers, the name gets a random suffix, because
 * a name conflict would reveal other customers' names.
 * @param random letters and digits for the suffix
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
 * Finds an account with the same containers and the requested name, which the request would create a second time.
 * @throws {BerthError} `invalid_state` if the account has other rights than the request would give
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
