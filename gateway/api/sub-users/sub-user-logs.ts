import { Type } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { AuditStore } from '../../access/audit.js'
import { refOf } from '../../accounts/account-record.js'
import type { Accounts } from '../../accounts/accounts.js'
import { route, type Route } from '../../http/route.js'
import type { SubUsers } from '../../sub-users/sub-users.js'
import { answerEntries, auditFilterOf, AuditQuerySchema, AuditRowSchema } from '../access/audit-logs.js'
import { answerLogins, LoginRowSchema, OwnLoginQuerySchema } from '../accounts/login-logs.js'
import { SubUserPathSchema } from './sub-user-schemas.js'

export interface SubUserLogDeps {
  readonly subUsers: SubUsers
  readonly audit: AuditStore
  readonly accounts: Pick<Accounts, 'loginLog'>
  readonly time: TimeFormat
}

const common = {
  ...({ method: 'GET', bound: 'own', subUser: 'refused', tag: 'Accounts', sortable: ['time'] } as const),
  params: SubUserPathSchema,
}

export function subUserLogRoutes({ subUsers, audit, accounts, time }: SubUserLogDeps): Route[] {
  return [
    route({
      ...common,
      path: '/sub-users/{id}/audit-logs',
      name: 'listSubUserAuditLogs',
      scope: 'audit:read',
      summary: 'Lists the changes made by a sub-user, newest first',
      query: AuditQuerySchema,
      data: Type.Array(AuditRowSchema),
      handle: async ({ caller, params, query }) => {
        const by = refOf(await subUsers.get(caller, params.id))
        const filter = { ...auditFilterOf(query, time), by, guests: caller.guests }
        return answerEntries(audit, query, filter, time)
      },
    }),
    route({
      ...common,
      path: '/sub-users/{id}/login-logs',
      name: 'listSubUserLoginLogs',
      scope: 'loginlog:read',
      summary: 'Lists the logins and failed login attempts of a sub-user, newest first',
      query: OwnLoginQuerySchema,
      data: Type.Array(LoginRowSchema),
      handle: async ({ caller, params, query }) => {
        const { id: accountId } = await subUsers.get(caller, params.id)
        return answerLogins(accounts.loginLog, query, { time, accountId })
      },
    }),
  ]
}
