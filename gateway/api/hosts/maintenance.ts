import { Type } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet, FleetView, HostView } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import type { Maintenance } from '../../maintenance/maintenance.js'
import type { WindowFields } from '../../maintenance/window.js'
import { nothingToChange } from '../guests/guest-settings.js'
import {
  AnnounceSchema,
  ChangeSchema,
  StateSchema,
  WindowPathSchema,
  windowRow,
  WindowSchema,
  type WindowBody,
} from './maintenance-schemas.js'

interface Parts {
  readonly fleet: Fleet
  readonly maintenance: Maintenance
  readonly time: TimeFormat
}

const common = { bound: 'refused', tag: 'Maintenance' } as const
const sortable = ['starts_at', 'ends_at', 'announced_at'] as const

export function maintenanceRoutes(parts: Parts): Route[] {
  return [...readRoutes(parts), announceRoute(parts), updateRoute(parts), cancelRoute(parts)]
}

function readRoutes({ fleet: { view }, maintenance, time }: Parts): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path: '/maintenance',
      name: 'listMaintenance',
      scope: 'host:read',
      summary:
        'Lists the maintenance windows, earliest first: open ones, and the newest 100 that have ended or were canceled',
      sortable,
      query: listQuery({ state: StateSchema }),
      data: Type.Array(WindowSchema),
      handle: ({ query }) => {
        const rows = maintenance.list().map((window) => windowRow(window, { view, time }))
        return listAnswer(rows, query, { sortable, filters: ['state'] })
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/maintenance/{id}',
      name: 'getMaintenance',
      scope: 'host:read',
      summary: 'Returns a maintenance window',
      params: WindowPathSchema,
      data: WindowSchema,
      handle: ({ params }) => ({ data: windowRow(maintenance.get(params.id), { view, time }) }),
    }),
  ]
}

function announceRoute({ fleet, maintenance, time }: Parts): Route {
  return route({
    ...common,
    method: 'POST',
    path: '/maintenance',
    name: 'announceMaintenance',
    scope: 'host:manage',
    audit: 'maintenance.announce',
    summary:
      'Announces maintenance of hosts. Sub-users see it with each of their containers on these hosts. It starts and ends by itself at the announced times, and changes neither hosts nor containers',
    body: AnnounceSchema,
    example: {
      hosts: ['node1'],
      starts_at: '2030-01-15 02:00:00',
      ends_at: '2030-01-15 04:00:00',
      interruption_minutes: 10,
      message: 'We replace a network card.',
    },
    data: WindowSchema,
    statuses: [201],
    errors: ['too_many_windows'],
    handle: async (context) => {
      const { body, caller, operationId: id } = context
      const hostIds = findHosts(fleet.view, body)
      if (!hostIds) throw invalidField('hosts', 'hosts: must be sent, unless group is sent')
      const { startsAtMs = 0, endsAtMs = 0, interruptionMinutes = 0, message = '' } = fieldsOf(body, time)
      const fields = { startsAtMs, endsAtMs, interruptionMinutes, message, hostIds }
      context.audit({ target: targetOf(fleet.view, hostIds), detail: detailOf(id, fields, time) })
      const window = await maintenance.announce(fleet, { ...fields, id, announcedBy: caller.user })
      return { status: 201, message: 'maintenance announced', data: windowRow(window, { view: fleet.view, time }) }
    },
  })
}

function updateRoute({ fleet, maintenance, time }: Parts): Route {
  return route({
    ...common,
    method: 'PATCH',
    path: '/maintenance/{id}',
    name: 'updateMaintenance',
    scope: 'host:manage',
    audit: 'maintenance.update',
    summary:
      'Changes a maintenance window that is announced or active. Omitted fields stay unchanged. For hosts that it no longer concerns, it is canceled',
    params: WindowPathSchema,
    body: ChangeSchema,
    example: { ends_at: '2030-01-15 05:00:00' },
    data: WindowSchema,
    errors: ['invalid_state'],
    handle: async (context) => {
      const { body, params } = context
      const before = maintenance.get(params.id)
      const hostIds = findHosts(fleet.view, body)
      const change = { ...fieldsOf(body, time), ...(hostIds && { hostIds }) }
      context.audit({
        target: targetOf(fleet.view, hostIds ?? before.hostIds),
        detail: detailOf(params.id, change, time),
      })
      const isEmpty = Object.keys(change).length === 0
      const window = isEmpty ? before : await maintenance.update(fleet, params.id, change)
      const message = isEmpty ? nothingToChange : 'maintenance changed'
      return { message, data: windowRow(window, { view: fleet.view, time }) }
    },
  })
}

function cancelRoute({ fleet, maintenance, time }: Parts): Route {
  return route({
    ...common,
    method: 'POST',
    path: '/maintenance/{id}/cancel',
    name: 'cancelMaintenance',
    scope: 'host:manage',
    audit: 'maintenance.cancel',
    summary: 'Cancels announced maintenance. Active maintenance ends now',
    params: WindowPathSchema,
    data: WindowSchema,
    errors: ['invalid_state'],
    handle: async (context) => {
      const { id } = context.params
      context.audit({ target: targetOf(fleet.view, maintenance.get(id).hostIds), detail: `id ${id}` })
      const window = await maintenance.cancel(fleet, id)
      const message = window.state === 'ended' ? 'maintenance ended' : 'maintenance canceled'
      return { message, data: windowRow(window, { view: fleet.view, time }) }
    },
  })
}

/** @returns ids of the hosts without duplicates; undefined: no host is named @throws {BerthError} `invalid_field` */
function findHosts(view: FleetView, { hosts: names, group }: WindowBody): string[] | undefined {
  if (names && group !== undefined) throw invalidField('group', 'group: cannot be sent together with hosts')
  if (names) return [...new Set(names.map((name) => findHost(view.hosts(), name).id))]
  if (group === undefined) return undefined
  const found = view.hosts().filter((host) => host.group === group)
  if (found.length === 0) throw invalidField('group', `group: no host belongs to the group ${group}`)
  return found.map(({ id }) => id)
}

function findHost(hosts: readonly HostView[], ref: string): HostView {
  const found = hosts.find(({ id }) => id === ref) ?? hosts.find(({ name }) => name.toLowerCase() === ref.toLowerCase())
  if (!found) throw invalidField('hosts', `hosts: host ${ref} does not exist`)
  return found
}

/** Parses the sent fields other than the hosts. @throws {BerthError} `invalid_field` */
function fieldsOf(body: WindowBody, time: TimeFormat): Partial<Omit<WindowFields, 'hostIds'>> {
  const { starts_at: startsAt, ends_at: endsAt, interruption_minutes: interruptionMinutes, message } = body
  return {
    ...(startsAt !== undefined && { startsAtMs: parseStart(startsAt, time) }),
    ...(endsAt !== undefined && { endsAtMs: time.parseField('ends_at', endsAt) }),
    ...(interruptionMinutes !== undefined && { interruptionMinutes }),
    ...(message !== undefined && { message }),
  }
}

/** Parses the start. Refuses a bare date, which would mean the end of the day. @throws {BerthError} `invalid_field` */
function parseStart(text: string, time: TimeFormat): number {
  if (/^\s*\d+-\d+-\d+\s*$/.test(text)) throw invalidField('starts_at', 'starts_at: add the time to the date')
  return time.parseField('starts_at', text)
}

function targetOf(view: FleetView, hostIds: readonly string[]): string {
  const [first = '', ...others] = hostIds
  return others.length > 0 ? `${hostIds.length} hosts` : (view.findHost(first)?.name ?? first)
}

function detailOf(id: string, fields: Partial<WindowFields>, time: TimeFormat): string {
  const { startsAtMs, endsAtMs, interruptionMinutes, message } = fields
  return [
    `id ${id}`,
    ...(startsAtMs === undefined ? [] : [`starts_at ${time.format(startsAtMs)}`]),
    ...(endsAtMs === undefined ? [] : [`ends_at ${time.format(endsAtMs)}`]),
    ...(interruptionMinutes === undefined ? [] : [`interruption_minutes ${interruptionMinutes}`]),
    ...(message === undefined ? [] : ['message changed']),
  ].join(', ')
}
