import { Type, type Static } from 'typebox'
import { abuseTypes, alertActions, severities } from '../../../shared/abuse.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { AlertView } from '../../fleet/contract.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'

export const AlertRowSchema = Type.Object(
  {
    id: Type.String(),
    host_id: Type.String(),
    container_id: Type.Integer(),
    container_uuid: Type.String(),
    container_name: Type.String(),
    type: oneOf(abuseTypes),
    severity: oneOf(severities, 'Severity of the alert. It never decreases.'),
    source_ip: Type.String({ description: 'IP address of the container.' }),
    target_ip: Type.String({ description: 'IP address of the target of the abuse. `*`: several targets.' }),
    target_port: Type.Integer({ description: 'Port of the target of the abuse. 0: several ports, or no port.' }),
    detail: Type.String({ description: 'Measured values that caused the alert, as readable text.' }),
    log_line: Type.String({ description: 'The alert as one line of text.' }),
    timestamp: {
      ...TimeSchema,
      description: 'Time of the last detection, `YYYY-MM-DD HH:MM:SS` in the server’s time zone.',
    },
    first_seen: timeSchema('the abuse was first detected'),
    count: Type.Integer({ description: 'Number of times that the abuse was detected.' }),
    action: oneOf(
      alertActions,
      'Reaction to the alert. `stop_pending`: the container is stopped at `stop_at` unless the abuse ends before.',
    ),
    stop_at: timeSchema('the container will be stopped', 'it will not be stopped'),
  },
  { title: 'SecurityAlert' },
)
export type AlertRow = Static<typeof AlertRowSchema>

/** Converts an alert to a row of the API's answer. The fleet view has already rejected unknown types and severities. */
export function alertRow({ hostId, alert }: AlertView, time: TimeFormat): AlertRow {
  const pending = alert.action === 'stop_pending'
  const shown = {
    id: alert.id,
    host_id: hostId,
    container_id: alert.guestId,
    container_uuid: alert.guestUuid,
    container_name: alert.guestName,
    type: alert.type as AlertRow['type'],
    severity: alert.severity as AlertRow['severity'],
    source_ip: alert.sourceIp,
    target_ip: alert.targetIp,
    target_port: alert.targetPort,
    detail: alert.detail,
    timestamp: time.format(alert.lastAtMs),
    first_seen: time.format(alert.firstAtMs),
    count: alert.count,
    action: alert.action as AlertRow['action'],
    stop_at: pending ? time.format(alert.stopAtMs) : '',
  }
  return { ...shown, log_line: lineOf(shown) }
}

function lineOf(row: Omit<AlertRow, 'log_line'>): string {
  const target = row.target_port === 0 ? row.target_ip : `${row.target_ip} port ${row.target_port}`
  const counted = row.count > 1 ? ` (${row.count} times)` : ''
  return `${row.timestamp} ${row.severity} ${row.type} ${row.container_name} ${row.source_ip} -> ${target}: ${row.detail}${counted}`
}
