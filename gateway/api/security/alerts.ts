import { Type, type Static } from 'typebox'
import { abuseTypes, severities } from '../../../shared/abuse.js'
import type { TimeFormat } from '../../../shared/time.js'
import { maySee, type Principal } from '../../access/principal.js'
import type { AlertView, Fleet } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'
import { getNamedHost } from '../host-choice.js'
import { alertRow, AlertRowSchema, type AlertRow } from './alert-row.js'

export interface SecurityDeps {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

const hostQuery = {
  host_id: Type.Optional(Type.String({ maxLength: 64, description: 'Id of the host. Default: all hosts.' })),
}
const filters = {
  type: oneOf(abuseTypes),
  severity: oneOf(severities),
  container_name: Type.String({ maxLength: 64 }),
  container_uuid: Type.String({ maxLength: 64 }),
}
const sortable = ['timestamp', 'first_seen', 'severity', 'type', 'container_name', 'count'] as const
const counts = (words: readonly string[]) =>
  Type.Object(Object.fromEntries(words.map((word) => [word, Type.Integer({ minimum: 0 })])))

const SummarySchema = Type.Object(
  {
    host_id: Type.String({ description: 'Id of the host. Empty: all hosts.' }),
    critical: Type.Integer({ description: 'Number of stored alerts with the severity `critical`.' }),
    high: Type.Integer(),
    medium: Type.Integer(),
    low: Type.Integer({ description: 'Always 0: alerts below `medium` are not reported.' }),
    total_alerts: Type.Integer({ description: 'Number of all stored alerts.' }),
    total: Type.Integer({ description: 'Same as `total_alerts`.' }),
    active: Type.Integer({
      description: 'Number of active alerts: their abuse was detected within the last 15 minutes.',
    }),
    by_severity: counts(severities),
    by_type: counts(abuseTypes),
    containers: Type.Integer({ description: 'Number of containers with active alerts.' }),
    pending_stops: Type.Integer({ description: 'Number of containers that will be stopped soon because of an alert.' }),
    blocked: Type.Integer({
      description: 'Number of containers that were stopped because of an alert and cannot be started.',
    }),
    last_alert_at: timeSchema('the last alert was raised', 'there is no alert'),
  },
  { title: 'SecuritySummary' },
)

export function securityReadRoutes({ fleet, time }: SecurityDeps): Route[] {
  const { view } = fleet
  return [
    route({
      method: 'GET',
      path: '/security/alerts',
      name: 'listSecurityAlerts',
      scope: 'security:read',
      bound: 'own',
      subUser: 'refused',
      tag: 'Security',
      summary: 'Lists the alerts about containers that attack or misuse other systems, newest first',
      query: Type.Object({ ...listQuery(filters).properties, ...hostQuery }),
      sortable,
      data: Type.Array(AlertRowSchema),
      handle: ({ caller, query }) => {
        const rows = alertsOf(fleet, caller, query.host_id).map((alert) => alertRow(alert, time))
        return listAnswer<AlertRow>(rows, query, {
          sortable,
          filters: ['type', 'severity', 'container_name', 'container_uuid'],
        })
      },
    }),
    route({
      method: 'GET',
      path: '/security/summary',
      name: 'getSecuritySummary',
      scope: 'security:read',
      bound: 'own',
      subUser: 'refused',
      tag: 'Security',
      summary: 'Returns the numbers of alerts by severity and type',
      query: Type.Object(hostQuery),
      data: SummarySchema,
      handle: ({ caller, query }) => {
        const alerts = alertsOf(fleet, caller, query.host_id)
        const blocked = [...view.guests()].filter(
          ({ hostId, guest }) =>
            maySee(caller, guest.uuid) &&
            (query.host_id ?? hostId) === hostId &&
            guest.policyReason.includes('security: '),
        ).length
        return { data: { host_id: query.host_id ?? '', ...summaryOf(alerts, time), blocked } }
      },
    }),
  ]
}

/** Lists the alerts that the caller may see, newest first. @throws {BerthError} `invalid_field` for an unknown host */
function alertsOf({ view }: Fleet, caller: Principal, hostId: string | undefined): AlertView[] {
  if (hostId !== undefined) getNamedHost(view, hostId)
  return view
    .alerts(hostId)
    .filter(({ alert }) => maySee(caller, alert.guestUuid))
    .sort((a, b) => b.alert.lastAtMs - a.alert.lastAtMs)
}

const activeMs = 15 * 60_000

function summaryOf(
  alerts: readonly AlertView[],
  time: TimeFormat,
): Omit<Static<typeof SummarySchema>, 'host_id' | 'blocked'> {
  const active = alerts.filter(({ alert }) => alert.lastAtMs > Date.now() - activeMs)
  const countBy = (words: readonly string[], field: 'type' | 'severity'): Record<string, number> =>
    Object.fromEntries(words.map((word) => [word, alerts.filter(({ alert }) => alert[field] === word).length]))
  const guestsOf = (some: readonly AlertView[]): number => new Set(some.map(({ alert }) => alert.guestUuid)).size
  const bySeverity = countBy(severities, 'severity')
  const { critical = 0, high = 0, medium = 0 } = bySeverity
  return {
    critical,
    high,
    medium,
    low: 0,
    total_alerts: alerts.length,
    total: alerts.length,
    active: active.length,
    by_severity: bySeverity,
    by_type: countBy(abuseTypes, 'type'),
    containers: guestsOf(active),
    pending_stops: guestsOf(alerts.filter(({ alert }) => alert.action === 'stop_pending')),
    last_alert_at: time.format(alerts[0]?.alert.lastAtMs ?? 0),
  }
}
