import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { AuditFilter, AuditStore } from '../../access/audit.js'
import type { AuditRecord } from '../../access/audit-record.js'
import { linesAnswer, maxLines } from '../../http/lines.js'
import { countHeader, listQuery, readPage } from '../../http/list.js'
import { route, type Answer, type Route } from '../../http/route.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
import { parseSpan, spanQuery } from './time-span.js'

export const AuditRowSchema = Type.Object(
  {
    time: TimeSchema,
    action: Type.String(),
    target: Type.String(),
    detail: Type.String(),
    user: Type.String({
      description: 'Name of the caller: `api:` and the name of the API key, or the user name of the account.',
    }),
    key_id: Type.Integer({
      description:
        'Id of the API key that sent the request, since several keys can have the same name. 0: the request was not sent with a key.',
    }),
    by: Type.String({
      description:
        'Caller: `key:12`, `admin:3` or `subuser:4`. `nobody`: somebody with a setup link who was not logged in. `system`: the gateway itself.',
    }),
    success: Type.Boolean(),
    address: Type.String({ description: 'IP address of the caller.' }),
    request_id: Type.String(),
    count: Type.Optional(
      Type.Integer({
        description:
          'Number of similar events in this entry. Similar failures of one caller within an hour share one entry.',
      }),
    ),
    last_time: Type.Optional(timeSchema('the last of the similar events happened')),
  },
  { title: 'AuditEntry' },
)

const text = Type.String({ maxLength: 128 })
export const AuditQuerySchema = Type.Object({
  ...listQuery({ action: text, user: text, target: text, success: Type.Boolean(), ...spanQuery }).properties,
  sort: Type.Optional(oneOf(['-time', 'time'], 'Order of the entries. Default: newest first.')),
})
export type AuditQuery = Static<typeof AuditQuerySchema>
const { page: _, page_size: __, sort: ___, ...exported } = AuditQuerySchema.properties
const ExportSchema = Type.Object(exported)

export interface AuditLogDeps {
  readonly audit: AuditStore
  readonly time: TimeFormat
}

const common = { method: 'GET', tag: 'Logs', sortable: ['time'] } as const

export function auditLogRoutes({ audit, time }: AuditLogDeps): Route[] {
  return [
    route({
      ...common,
      path: '/audit-logs',
      name: 'listAuditLogs',
      subUser: 'refused',
      scope: 'audit:read',
      bound: 'own',
      summary: 'Lists the changes that all callers made, newest first',
      query: AuditQuerySchema,
      data: Type.Array(AuditRowSchema),
      handle: ({ caller, query }) =>
        answerEntries(audit, query, { ...auditFilterOf(query, time), guests: caller.guests }, time),
    }),
    route({
      ...common,
      path: '/account/audit-logs',
      name: 'listOwnAuditLogs',
      subUser: 'allowed',
      scope: 'session',
      bound: 'own',
      summary: 'Lists the changes that the caller made, newest first',
      query: AuditQuerySchema,
      data: Type.Array(AuditRowSchema),
      handle: ({ caller, query }) => {
        const own = { by: caller.viewed?.ref ?? caller.ref, guests: caller.guests, all: true }
        return answerEntries(audit, query, { ...auditFilterOf(query, time), ...own }, time)
      },
    }),
    route({
      ...common,
      path: '/audit-logs/export',
      name: 'exportAuditLogs',
      subUser: 'refused',
      scope: 'audit:read',
      bound: 'own',
      summary: 'Exports the entries of `GET /audit-logs` as a file with one JSON document per line',
      produces: 'application/x-ndjson',
      query: ExportSchema,
      handle: async ({ caller, query }) => {
        const filter = { ...auditFilterOf(query, time), guests: caller.guests }
        const { records, total } = await audit.read(filter, { page: 1, size: maxLines })
        const rows = records.map((record) => auditRow(record, time))
        return linesAnswer(rows, total, 'audit-logs.jsonl')
      },
    }),
  ]
}

/** Answers with the audit entries that a query selects. @throws {BerthError} `store_unavailable` */
export async function answerEntries(
  audit: AuditStore,
  query: AuditQuery,
  filter: AuditFilter,
  time: TimeFormat,
): Promise<Answer<Static<typeof AuditRowSchema>[]>> {
  const oldestFirst = query.sort === 'time'
  const page = readPage(query)
  const { records, total } = await audit.read(filter, oldestFirst ? undefined : page)
  const wanted = oldestFirst ? slice(records.toReversed(), page) : records
  return { data: wanted.map((record) => auditRow(record, time)), headers: countHeader(total) }
}

/** @throws {BerthError} `invalid_field` */
export function auditFilterOf(query: Omit<AuditQuery, 'page' | 'page_size' | 'sort'>, time: TimeFormat) {
  const { action, user, target, success } = query
  return { action, user, target, success, ...parseSpan(query, time) }
}

function slice<T>(rows: T[], page: { page: number; size: number } | undefined): T[] {
  return page ? rows.slice((page.page - 1) * page.size, page.page * page.size) : rows
}

function auditRow(record: AuditRecord, time: TimeFormat): Static<typeof AuditRowSchema> {
  return {
    time: time.format(record.timeMs),
    action: record.action,
    target: record.target,
    detail: record.detail,
    user: record.user,
    key_id: record.keyId,
    by: record.by,
    success: record.success,
    address: record.address,
    request_id: record.requestId,
    ...(record.count > 1 && { count: record.count, last_time: time.format(record.lastMs) }),
  }
}
