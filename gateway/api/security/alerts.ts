import { Type, type Static } from 'typebox'
import { abuseTypes, severities } from '../../../shared/abuse.js'
import { BerthError, notFound } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { SecurityLog } from '../../../proto/gen/berth/agent/v1/security.js'
import { maySee, type Principal } from '../../access/principal.js'
import type { AlertView, Fleet, GuestView } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { getNamedHost } from '../hosts/host-choice.js'
import { alertRow, AlertRowSchema, type AlertRow } from './alert-row.js'

export interface SecurityDeps {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

const hostQuery = {
  host_id: Type.Optional(Type.String({ maxLength: 64, description: 'Default: all hosts.' })),
}
const filters = {
  type: oneOf(abuseTypes),
  severity: oneOf(severities),
  container_name: Type.String({ maxLength: 64 }),
  container_uuid: Type.String({ maxLength: 64 }),
}
const sortable = ['timestamp', 'first_seen', 'severity', 'type', 'container_name', 'count'] as const
const errors = ['host_offline', 'agent_timeout']

const LogRowSchema = Type.Object(
  {
    src_ip: Type.String(),
    dst_ip: Type.String(),
    src_port: Type.Integer({ description: '0: it was not kept, or there is none.' }),
    dst_port: Type.Integer(),
    protocol: Type.String(),
    state: Type.String({
      description: 'As conntrack(8) names it; of what was kept `OPENED`, `REFUSED`, `UNREPLIED`, `REPLIED`.',
    }),
    timestamp: TimeSchema,
  },
  { title: 'SecurityLog' },
)

const counts = (words: readonly string[]) =>
  Type.Object(Object.fromEntries(words.map((word) => [word, Type.Integer({ minimum: 0 })])))

const SummarySchema = Type.Object(
  {
    host_id: Type.String({ description: 'Empty: all hosts.' }),
    critical: Type.Integer({ description: 'Alerts that are kept, of this severity.' }),
    high: Type.Integer(),
    medium: Type.Integer(),
    low: Type.Integer({ description: '0: nothing is told that is less than medium.' }),
    total_alerts: Type.Integer({ description: 'Alerts that are kept.' }),
    total: Type.Integer({ description: 'The same.' }),
    active: Type.Integer({ description: 'Found within the last 15 minutes.' }),
    by_severity: counts(severities),
    by_type: counts(abuseTypes),
    containers: Type.Integer({ description: 'Containers with active alerts.' }),
    pending_stops: Type.Integer({ description: 'Containers that are about to be stopped.' }),
    blocked: Type.Integer({ description: 'Containers that were stopped and may not start.' }),
    last_alert_at: TimeSchema,
  },
  { title: 'SecuritySummary' },
)

/** What hosts noticed of containers that harm others. */
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
      summary: 'What was noticed of containers that harm others, newest first',
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
      path: '/security/logs',
      name: 'listSecurityLogs',
      scope: 'security:read',
      bound: 'own',
      subUser: 'refused',
      tag: 'Security',
      summary:
        'Connections of a container: those of the moment, and what was kept of its alerts; at most 100',
      query: Type.Object({
        container: Type.Optional(
          Type.String({ maxLength: 64, description: 'Name, uuid or numeric id; required.' }),
        ),
      }),
      data: Type.Array(LogRowSchema),
      errors: ['missing_field', 'not_found', ...errors],
      handle: async ({ caller, query }) => {
        const { hostId, guest } = visibleGuest(fleet, caller, query.container)
        const { logs } = await fleet.agent(hostId).security.getSecurityLogs({ uuid: guest.uuid })
        return { data: logs.slice(0, 100).map((log) => logRow(log, time)) }
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
      summary: 'How many alerts there are, of what kind',
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

/**
 * Alerts that the caller may see, newest first.
 * @throws {BerthError} `invalid_field` for an unknown host
 */
function alertsOf({ view }: Fleet, caller: Principal, hostId: string | undefined): AlertView[] {
  if (hostId !== undefined) getNamedHost(view, hostId)
  return view
    .alerts(hostId)
    .filter(({ alert }) => maySee(caller, alert.guestUuid))
    .sort((a, b) => b.alert.lastAtMs - a.alert.lastAtMs)
}

/** @throws {BerthError} `missing_field`, `not_found` */
function visibleGuest({ view }: Fleet, caller: Principal, ref: string | undefined): GuestView {
  if (ref === undefined)
    throw new BerthError('invalid', 'missing_field', 'container: is required', { field: 'container' })
  const found = view.findGuest(ref)
  if (!found || !maySee(caller, found.guest.uuid)) throw notFound('container')
  return found
}

function logRow(log: SecurityLog, time: TimeFormat): Static<typeof LogRowSchema> {
  return {
    ...{ src_ip: log.srcIp.slice(0, 45), dst_ip: log.dstIp.slice(0, 45) },
    ...{ src_port: log.srcPort, dst_port: log.dstPort },
    ...{ protocol: log.protocol.slice(0, 16), state: log.state.slice(0, 32) },
    timestamp: time.format(log.atMs),
  }
}

const activeMs = 15 * 60_000

function summaryOf(
  alerts: readonly AlertView[],
  time: TimeFormat,
): Omit<Static<typeof SummarySchema>, 'host_id' | 'blocked'> {
  const active = alerts.filter(({ alert }) => alert.lastAtMs > Date.now() - activeMs)
  const countBy = (words: readonly string[], field: 'type' | 'severity'): Record<string, number> =>
    Object.fromEntries(
      words.map((word) => [word, alerts.filter(({ alert }) => alert[field] === word).length]),
    )
  const guestsOf = (some: readonly AlertView[]): number =>
    new Set(some.map(({ alert }) => alert.guestUuid)).size
  const bySeverity = countBy(severities, 'severity')
  const { critical = 0, high = 0, medium = 0 } = bySeverity
  return {
    ...{ critical, high, medium, low: 0, total_alerts: alerts.length },
    ...{ total: alerts.length, active: active.length },
    ...{ by_severity: bySeverity, by_type: countBy(abuseTypes, 'type') },
    containers: guestsOf(active),
    pending_stops: guestsOf(alerts.filter(({ alert }) => alert.action === 'stop_pending')),
    last_alert_at: time.format(alerts[0]?.alert.lastAtMs ?? 0),
  }
}
