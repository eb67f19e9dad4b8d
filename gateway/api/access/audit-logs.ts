import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { AuditStore } from '../../access/audit.js'
import type { AuditRecord } from '../../access/audit-record.js'
import { listQuery, readPage } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'

const RowSchema = Type.Object(
  {
    time: TimeSchema,
    action: Type.String(),
    target: Type.String(),
    detail: Type.String(),
    user: Type.String({ description: '`api:` and the name of the key.' }),
    key_id: Type.Integer({ description: 'Id of the key: another may have the same name.' }),
    success: Type.Boolean(),
    address: Type.String({ description: 'The client’s.' }),
    request_id: Type.String(),
  },
  { title: 'AuditEntry' },
)

const text = Type.String({ maxLength: 128 })
const time = Type.String({ maxLength: 64, description: 'As all times; inclusive.' })
const QuerySchema = Type.Object({
  ...listQuery({ action: text, user: text, target: text, success: Type.Boolean(), from: time, to: time })
    .properties,
  sort: Type.Optional(oneOf(['-time', 'time'], 'Default: newest first.')),
})
type Query = Static<typeof QuerySchema>

export interface AuditLogDeps {
  readonly audit: AuditStore
  readonly time: TimeFormat
}

export function auditLogRoutes({ audit, time }: AuditLogDeps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/audit-logs',
      name: 'listAuditLogs',
      sortable: ['time'],
      scope: 'audit:read',
      bound: 'own',
      tag: 'Logs',
      summary: 'What was changed, by whom, newest first',
      query: QuerySchema,
      data: Type.Array(RowSchema),
      handle: async ({ caller, query }) => {
        const filter = { ...parseFilter(query, time), guests: caller.guests }
        const oldestFirst = query.sort === 'time'
        const page = readPage(query)
        const { records, total } = await audit.read(filter, oldestFirst ? undefined : page)
        const wanted = oldestFirst ? slice(records.toReversed(), page) : records
        return {
          data: wanted.map((record) => auditRow(record, time)),
          headers: { 'X-Total-Count': String(total) },
        }
      },
    }),
  ]
}

/** As an end it means the end of that day, as a beginning its first second. */
const bareDate = /^\d{4}-\d{2}-\d{2}$/

function parseFilter(query: Query, time: TimeFormat) {
  const ms = (field: 'from' | 'to', text = query[field]) =>
    text === undefined ? undefined : time.parseField(field, text)
  const { action, user, target, success } = query
  const toMs = ms('to')
  // Times are in whole seconds; the named second is included.
  return {
    action,
    user,
    target,
    success,
    fromMs: ms('from', query.from?.replace(bareDate, '$& 00:00:00')),
    toMs: toMs === undefined ? undefined : toMs + 999,
  }
}

function slice<T>(rows: T[], page: { page: number; size: number } | undefined): T[] {
  return page ? rows.slice((page.page - 1) * page.size, page.page * page.size) : rows
}

function auditRow(record: AuditRecord, time: TimeFormat): Static<typeof RowSchema> {
  return {
    time: time.format(record.timeMs),
    action: record.action,
    target: record.target,
    detail: record.detail,
    user: record.user,
    key_id: record.keyId,
    success: record.success,
    address: record.address,
    request_id: record.requestId,
  }
}
