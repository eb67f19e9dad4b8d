import { Type, type Static } from 'typebox'
import { placementNamePattern } from '../../../shared/placement-rules.js'
import { suspensionTextPattern } from '../../../shared/suspension-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { FleetView } from '../../fleet/contract.js'
import { windowStates } from '../../fleet/host-windows.js'
import { entries, trimmed } from '../../http/normalize.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { mostInterruptionMinutes, type Window } from '../../maintenance/window.js'
import { maintenanceFields, windowFields } from '../guests/maintenance-row.js'

export const StateSchema = oneOf(windowStates)

export const WindowSchema = Type.Object(
  {
    ...maintenanceFields,
    hosts: Type.Array(Type.Object({ id: Type.String(), name: Type.String() }, { title: 'MaintenanceHost' }), {
      description: 'Hosts that the maintenance concerns, without removed ones.',
    }),
    containers: Type.Integer({ minimum: 0, description: 'Number of containers that these hosts have now.' }),
    announced_by: Type.String(),
    announced_at: TimeSchema,
    closed_at: Type.String({
      ...TimeSchema,
      description: 'Time at which the maintenance ended or was canceled. Empty: it is announced or active.',
    }),
  },
  { title: 'Maintenance' },
)
export type WindowRow = Static<typeof WindowSchema>

export const WindowPathSchema = Type.Object({ id: Type.String({ maxLength: 64 }) })

const time = { ...trimmed, maxLength: 40 } as const
const fields = {
  hosts: Type.Array(Type.String({ ...trimmed, minLength: 1, maxLength: 64 }), {
    ...entries,
    minItems: 1,
    maxItems: 1000,
    description: 'Names or ids of the hosts. Use either `hosts` or `group`.',
  }),
  group: Type.String({
    minLength: 1,
    pattern: placementNamePattern,
    description:
      'Group of hosts. The maintenance concerns the hosts that belong to the group at the time of the request.',
  }),
  starts_at: Type.String({
    ...time,
    description:
      'Start of the maintenance: now or later, at most 90 days ahead. It cannot be changed after the maintenance has started.',
  }),
  ends_at: Type.String({ ...time, description: 'Expected end, at most 7 days after `starts_at`.' }),
  interruption_minutes: Type.Integer({
    minimum: 0,
    maximum: mostInterruptionMinutes,
    description: 'Minutes for which each container is expected to be interrupted. Default: 0, which means none.',
  }),
  message: Type.String({
    ...trimmed,
    pattern: suspensionTextPattern,
    description: 'Plain text on one line, at most 500 characters, which sub-users see. Default: empty.',
  }),
} as const

export const AnnounceSchema = Type.Object(
  {
    hosts: Type.Optional(fields.hosts),
    group: Type.Optional(fields.group),
    starts_at: fields.starts_at,
    ends_at: fields.ends_at,
    interruption_minutes: Type.Optional(fields.interruption_minutes),
    message: Type.Optional(fields.message),
  },
  { title: 'MaintenanceAnnouncement' },
)
export const ChangeSchema = Type.Object(
  {
    hosts: Type.Optional(fields.hosts),
    group: Type.Optional(fields.group),
    starts_at: Type.Optional(fields.starts_at),
    ends_at: Type.Optional(fields.ends_at),
    interruption_minutes: Type.Optional(fields.interruption_minutes),
    message: Type.Optional(fields.message),
  },
  { title: 'MaintenanceChange' },
)
export type WindowBody = Static<typeof ChangeSchema>

export function windowRow(window: Window, { view, time }: { view: FleetView; time: TimeFormat }): WindowRow {
  const hosts = window.hostIds.flatMap((id) => view.findHost(id) ?? [])
  return {
    ...windowFields(window, time),
    hosts: hosts.map(({ id, name }) => ({ id, name })),
    containers: hosts.reduce((sum, { id }) => sum + view.countGuests(id).total, 0),
    announced_by: window.announcedBy,
    announced_at: time.format(window.announcedAtMs),
    closed_at: time.format(window.closedAtMs),
  }
}
