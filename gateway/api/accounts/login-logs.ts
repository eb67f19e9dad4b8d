import { Type, type Static, type TProperties } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Accounts } from '../../accounts/accounts.js'
import type { LoginLog } from '../../accounts/login-log.js'
import { loginMethods, loginReasons, type LoginFilter, type LoginRecord } from '../../accounts/login-record.js'
import { linesAnswer, maxLines } from '../../http/lines.js'
import { countHeader, listQuery, rangeOf } from '../../http/list.js'
import { route, type Answer, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { parseSpan, spanQuery } from '../access/time-span.js'

export const LoginRowSchema = Type.Object(
  {
    time: TimeSchema,
    username: Type.String({
      description: 'User name that was entered. Empty: the entered text was not a valid user name.',
    }),
    ip: Type.String({
      description:
        'IP address from which the login was attempted. Empty: this entry combines the failures of many addresses.',
    }),
    user_agent: Type.String(),
    success: Type.Boolean(),
    method: oneOf(loginMethods),
    reason: Type.String({
      description: `Reason of a failure: ${loginReasons.join(', ')}. Empty: the login succeeded.`,
    }),
    count: Type.Integer({
      description:
        'Number of login attempts that this entry combines: equal attempts within a minute, or within an hour if `ip` is empty.',
    }),
  },
  { title: 'LoginEntry' },
)

const ownFilters = {
  ip: Type.String({ maxLength: 64 }),
  method: oneOf(loginMethods),
  reason: oneOf(loginReasons),
  success: Type.Boolean(),
  ...spanQuery,
} satisfies TProperties
const filters = { username: Type.String({ maxLength: 64 }), ...ownFilters } satisfies TProperties

const QuerySchema = Type.Object({
  ...listQuery(filters).properties,
  sort: Type.Optional(oneOf(['-time', 'time'], 'Order of the entries. Default: newest first.')),
})
export const OwnLoginQuerySchema = Type.Object({
  ...listQuery(ownFilters).properties,
  sort: QuerySchema.properties.sort,
})
const { page: _, page_size: __, sort: ___, ...exported } = QuerySchema.properties
const ExportSchema = Type.Object(exported)
type Query = Static<typeof QuerySchema>

export interface LoginLogDeps {
  readonly accounts: Pick<Accounts, 'loginLog'>
  readonly time: TimeFormat
}

const common = { method: 'GET', bound: 'same', tag: 'Logs', sortable: ['time'] } as const

export function loginLogRoutes({ accounts: { loginLog }, time }: LoginLogDeps): Route[] {
  return [
    route({
      ...common,
      bound: 'refused',
      path: '/login-logs',
      name: 'listLoginLogs',
      scope: 'loginlog:read',
      summary: 'Lists the logins and failed login attempts of all accounts, newest first',
      query: QuerySchema,
      data: Type.Array(LoginRowSchema),
      handle: ({ query }) => answerLogins(loginLog, query, { time }),
    }),
    route({
      ...common,
      path: '/account/login-logs',
      name: 'listOwnLoginLogs',
      subUser: 'allowed',
      scope: 'session',
      summary: 'Lists the caller’s own logins and the failed attempts with the caller’s user name, newest first',
      query: OwnLoginQuerySchema,
      data: Type.Array(LoginRowSchema),
      handle: ({ query, caller }) =>
        answerLogins(loginLog, query, { time, accountId: caller.kind === 'session' ? caller.accountId : -1 }),
    }),
    route({
      ...common,
      bound: 'refused',
      path: '/login-logs/export',
      name: 'exportLoginLogs',
      scope: 'loginlog:read',
      summary: 'Exports the entries of `GET /login-logs` as a file with one JSON document per line',
      produces: 'application/x-ndjson',
      query: ExportSchema,
      handle: async ({ query }) => {
        const found = await loginLog.read(filterOf(query, time))
        const rows = found.slice(0, maxLines).map((record) => loginRow(record, time))
        return linesAnswer(rows, found.length, 'login-logs.jsonl')
      },
    }),
  ]
}

interface Reading {
  readonly time: TimeFormat
  /** Id of the account. Default: all accounts. */
  readonly accountId?: number
}

/** Answers with the rows that a query selects. @throws {BerthError} `invalid_field`, `store_unavailable` */
export async function answerLogins(
  log: LoginLog,
  query: Query,
  { time, accountId }: Reading,
): Promise<Answer<Static<typeof LoginRowSchema>[]>> {
  const found = await log.read({ ...filterOf(query, time), accountId })
  const sorted = query.sort === 'time' ? found.toReversed() : found
  const { sort: ____, ...pages } = query
  const rows = sorted.slice(...rangeOf(pages)).map((record) => loginRow(record, time))
  return { data: rows, headers: countHeader(found.length) }
}

function filterOf(query: Omit<Query, 'page' | 'page_size' | 'sort'>, time: TimeFormat): LoginFilter {
  const { username, ip: address, method, reason, success } = query
  return { username, address, method, reason, success, ...parseSpan(query, time) }
}

function loginRow(record: LoginRecord, time: TimeFormat): Static<typeof LoginRowSchema> {
  const { username, address, userAgent, method, reason, count } = record
  return {
    time: time.format(record.timeMs),
    username,
    ip: address,
    user_agent: userAgent,
    success: reason === '',
    method,
    reason,
    count,
  }
}
