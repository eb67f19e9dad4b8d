import { Type } from 'typebox'
import type { SubUserAccount } from '../../accounts/account-record.js'
import type { LoginLog } from '../../accounts/login-log.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import type { SubUsers } from '../../sub-users/sub-users.js'
import { nothingToChange, updatedAnswer } from '../guests/guest-settings.js'
import { planChange, planCreation } from './plan-fields.js'
import { createdRow, subUserRow, type RowParts } from './sub-user-row.js'
import {
  ChangeSubUserSchema,
  CreatedSubUserSchema,
  CreateSubUserSchema,
  RotatedSchema,
  RotateSchema,
  SubUserPathSchema,
  SubUserRowSchema,
} from './sub-user-schemas.js'

export interface SubUserDeps extends RowParts {
  readonly subUsers: SubUsers
  readonly logins: Pick<LoginLog, 'lastLogins'>
}

const ofAccounts = { bound: 'own', subUser: 'refused', tag: 'Accounts' } as const
const sortable = ['id', 'username', 'container_name', 'created_at', 'last_login', 'expires_at'] as const
const ChangedSchema = Type.Object({
  ...SubUserRowSchema.properties,
  ignored: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Fields of the request that were ignored because they are not known.',
    }),
  ),
})

export function subUserRoutes(deps: SubUserDeps): Route[] {
  return [listRoute(deps), createRoute(deps), rotateRoute(deps), changeRoute(deps), removeRoute(deps)]
}

function listRoute({ subUsers, logins, ...parts }: SubUserDeps): Route {
  return route({
    ...ofAccounts,
    method: 'GET',
    path: '/sub-users',
    name: 'listSubUsers',
    sortable,
    scope: 'subuser:read',
    summary: 'Lists the sub-users, in the order of their creation',
    query: listQuery({ username: Type.String({ maxLength: 64 }), disabled: Type.Boolean() }),
    data: Type.Array(SubUserRowSchema),
    handle: async ({ caller, query }) => {
      const accounts = await subUsers.list(caller)
      const last = await logins.lastLogins(accounts.map(({ id }) => id))
      const rows = accounts.map((account) =>
        subUserRow(parts, { account, accessCode: subUsers.codeOf(account), lastLogin: last.get(account.id) }),
      )
      return listAnswer(rows, query, { sortable, filters: ['username', 'disabled'] })
    },
  })
}

function createRoute({ subUsers, ...parts }: SubUserDeps): Route {
  return route({
    ...ofAccounts,
    method: 'POST',
    path: '/sub-user/create',
    name: 'createSubUser',
    scope: 'subuser:create',
    audit: 'sub_user.create',
    summary:
      'Creates a sub-user for containers. If a sub-user for the same containers exists, the answer contains it unchanged, with ' +
      '`created: false` and an empty password',
    body: CreateSubUserSchema,
    example: { container_name: 'web1', permissions: ['container:read', 'container:power'] },
    data: CreatedSubUserSchema,
    errors: ['not_found', 'name_conflict', 'invalid_state', 'account_limit_reached'],
    handle: async (context) => {
      const { caller, body } = context
      const shown = await subUsers.create(caller, planCreation(parts, body, caller), repeatableId(context))
      const isNew = shown.password !== ''
      audit(context, shown.account, `${isNew ? 'created' : 'already existed'}, ${describe(shown.account)}`)
      const message = isNew
        ? 'sub-user created: store the password now, it is not shown again'
        : 'the sub-user already exists: its password is not shown again'
      return { message, data: createdRow(parts, shown) }
    },
  })
}

function rotateRoute({ subUsers, linkOf }: SubUserDeps): Route {
  return route({
    ...ofAccounts,
    method: 'POST',
    path: '/sub-users/{id}/rotate-password',
    name: 'rotateSubUserPassword',
    scope: 'subuser:update',
    audit: 'sub_user.rotate_password',
    summary:
      'Generates a new password for a sub-user, removes the passkeys, and ends all sessions, consoles and event streams of the sub-user',
    params: SubUserPathSchema,
    body: RotateSchema,
    bodyOptional: true,
    example: { rotate_code: true },
    data: RotatedSchema,
    errors: ['not_found', 'invalid_state'],
    handle: async (context) => {
      const { caller, params, body } = context
      const rotateCode = body?.rotate_code ?? false
      const operationId = repeatableId(context)
      const { account, password, accessCode } = await subUsers.rotate(caller, params.id, {
        rotateCode,
        operationId,
      })
      audit(context, account, rotateCode ? 'password and access code' : 'password')
      return {
        message: 'password changed: store it now, it is not shown again',
        data: { username: account.username, password, access_code: accessCode, link: linkOf(accessCode) },
      }
    },
  })
}

function changeRoute({ subUsers, logins, ...parts }: SubUserDeps): Route {
  return route({
    ...ofAccounts,
    method: 'PATCH',
    path: '/sub-users/{id}',
    name: 'updateSubUser',
    scope: 'subuser:update',
    audit: 'sub_user.update',
    summary: 'Changes a sub-user. The change applies to the sub-user’s next request. Omitted fields stay unchanged',
    params: SubUserPathSchema,
    body: ChangeSubUserSchema,
    example: { disabled: true },
    data: ChangedSchema,
    errors: ['not_found'],
    handle: async (context) => {
      const { caller, params, body } = context
      const change = planChange(parts, body, caller)
      // The last login is read before the change, so that nothing has changed if the read fails.
      const lastLogin = (await logins.lastLogins([params.id])).get(params.id)
      const account = await subUsers.update(caller, params.id, change)
      const sent = Object.keys(body).filter((name) => Object.hasOwn(ChangeSubUserSchema.properties, name))
      audit(context, account, sent.length === 0 ? 'nothing' : `${sent.join(', ')}: ${describe(account)}`)
      const row = subUserRow(parts, { account, accessCode: subUsers.codeOf(account), lastLogin })
      const message = sent.length > 0 ? 'sub-user updated' : nothingToChange
      return { message, data: { ...row, ...updatedAnswer(message, body, ChangeSubUserSchema).data } }
    },
  })
}

function removeRoute({ subUsers }: SubUserDeps): Route {
  return route({
    ...ofAccounts,
    method: 'DELETE',
    path: '/sub-users/{id}',
    name: 'deleteSubUser',
    scope: 'subuser:update',
    audit: 'sub_user.delete',
    summary: 'Deletes a sub-user and ends all sessions, consoles and event streams of the sub-user',
    params: SubUserPathSchema,
    errors: ['not_found'],
    handle: async (context) => {
      const account = await subUsers.remove(context.caller, context.params.id)
      audit(context, account, describe(account))
      return { message: 'sub-user deleted' }
    },
  })
}

type AnyContext = RequestContext<unknown, unknown, unknown>

/** Id under which a generated password is stored for repetitions. `undefined`: the request has no Idempotency-Key. */
function repeatableId({ headers, operationId }: AnyContext): string | undefined {
  return headers['idempotency-key'] === undefined ? undefined : operationId
}

/** Writes the audit entry. If the account has one container, callers restricted to this container see the entry. */
function audit(context: AnyContext, { id, username, containerUuids }: SubUserAccount, detail: string): void {
  const [only, ...others] = containerUuids
  const containerUuid = only !== undefined && others.length === 0 ? { containerUuid: only } : {}
  context.audit({ target: username, detail: `id ${id}, ${detail}`, ...containerUuid })
}

function describe(account: SubUserAccount): string {
  const { scopes, containerUuids, imageIds, portMappingLimit, disabled } = account
  const images = imageIds === null ? 'any image' : `images ${imageIds.join(' ') || 'none'}`
  const bounds = `${containerUuids.length} containers, ${images}, ${portMappingLimit} ports`
  return `${disabled ? 'disabled, ' : ''}${bounds}, permissions ${scopes.join(' ') || 'none'}`
}
