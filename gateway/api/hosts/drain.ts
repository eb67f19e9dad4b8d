import { Type, type Static } from 'typebox'
import { invalidField, notFound } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { drainModes, drainStates, drainedGuestStates, type Drain, type DrainedGuest } from '../../drains/drain.js'
import type { Drains } from '../../drains/drains.js'
import type { DrainCommand } from '../../drains/plan-command.js'
import type { Fleet, GuestView, HostView } from '../../fleet/contract.js'
import type { PlannedMove } from '../../fleet/move-contract.js'
import { route, type Answer, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'
import { HostPathSchema } from './hosts.js'

const modeText =
  '`move`: containers move to other hosts. `stop`: they stay on the host and are shut down, for example before it restarts.'

const DrainedGuestSchema = Type.Object({
  container_uuid: Type.String(),
  name: Type.String(),
  state: oneOf(
    drainedGuestStates,
    '`active`: the container is being moved, stopped or started. `done`: it was moved, stopped or started. `failed`: the container stays as it is, see `message`. `skipped`: there was nothing to do for the container, see `message`.',
  ),
  task_id: Type.String({ description: 'Task of the last move, stop or start. Empty: none was needed yet.' }),
  to_host_id: Type.String({
    description: 'Target of the move. Empty until the target is chosen, and with the mode `stop`.',
  }),
  message: Type.String({ description: 'Reason why the container stays as it is, or why the last attempt failed.' }),
})
const DrainSchema = Type.Object(
  {
    host_id: Type.String(),
    state: oneOf(
      ['none', 'planned', ...drainStates],
      '`none`: the host was never drained. `planned`: the answer to a dry run. `done`: the drain has ended; some containers may have failed.',
    ),
    mode: oneOf(
      [...drainModes, 'evacuate'],
      `${modeText} \`evacuate\`: the host has failed, and they are restored on other hosts.`,
    ),
    direction: oneOf(
      ['away', 'back'],
      '`away`: containers leave the host, or are stopped. `back`: containers that have left it return, or those that were stopped are started.',
    ),
    parallel: Type.Integer({
      description: 'Number of containers that are moved, stopped or started at the same time.',
    }),
    bandwidth_mbps: Type.Integer({ description: 'Limit of each transfer in Mbit/s. 0: unlimited.' }),
    deadline: timeSchema('the drain stops, even if containers are left', 'the drain has no deadline'),
    started_by: Type.String(),
    started_at: timeSchema('the drain began', 'the host was never drained'),
    ended_at: timeSchema('the drain ended', 'it has not ended'),
    containers: Type.Array(DrainedGuestSchema),
  },
  { title: 'Drain' },
)
type DrainRow = Static<typeof DrainSchema>
type DrainSettings = Pick<Drain, 'mode' | 'parallel' | 'bandwidthMbps' | 'deadlineMs'>

const DrainBodySchema = Type.Object(
  {
    dry_run: Type.Optional(
      Type.Boolean({
        description:
          '`true`: only returns what would happen to each container, or the reason why it cannot move. The answer has the status 200.',
      }),
    ),
    parallel: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 20,
        description: 'Number of containers that are moved or stopped at the same time. Default: 2.',
      }),
    ),
    mode: Type.Optional(oneOf(drainModes, `${modeText} Default: \`move\`.`)),
    deadline: Type.Optional(
      Type.String({
        maxLength: 40,
        description:
          'Time after which no further container is moved or stopped. Those that still wait keep running, with the result `failed`. Default: none.',
      }),
    ),
    bandwidth_mbps: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 1_000_000,
        description: 'Limit of each transfer in Mbit/s. Default: 0, which means unlimited.',
      }),
    ),
  },
  { title: 'DrainHost' },
)
const UndrainBodySchema = Type.Object(
  {
    bring_back: Type.Optional(
      Type.Boolean({
        description:
          '`true`: the containers that the drain has moved away return to the host, and those that it has stopped are started.',
      }),
    ),
  },
  { title: 'UndrainHost' },
)
const defaultParallel = 2

interface Parts {
  readonly fleet: Fleet
  readonly drains: Drains
  readonly time: TimeFormat
}

const path = '/hosts/{id}/drain'
const common = { bound: 'refused', tag: 'Hosts', params: HostPathSchema, data: DrainSchema } as const

export function drainRoutes(parts: Parts): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path,
      name: 'getDrain',
      scope: 'host:read',
      summary: 'Returns the last drain of a host with the result of each container',
      handle: ({ params }) => {
        const host = getHost(parts, params.id)
        return { data: rowOf(host.id, parts.drains.find(host.id), parts.time) }
      },
    }),
    beginRoute(parts),
    ...Object.entries(commands).map(([command, text]) => commandRoute(parts, command as DrainCommand, text)),
    undrainRoute(parts),
  ]
}

function beginRoute(parts: Parts): Route {
  return route({
    ...common,
    method: 'POST',
    path,
    name: 'drainHost',
    scope: 'host:manage',
    audit: 'host.drain',
    summary:
      'Moves all containers of a host to other hosts, or stops them, and closes the host for new containers. Each container has its own result: if one cannot be moved, it keeps running, and the others continue',
    body: DrainBodySchema,
    bodyOptional: true,
    example: { dry_run: true },
    statuses: [200, 202],
    errors: ['drain_running'],
    handle: async (context): Promise<Answer<DrainRow>> => {
      const { params, caller, operationId } = context
      const { fleet, drains, time } = parts
      const body = context.body ?? {}
      const settings = settingsOf(body, time)
      const host = getHost(parts, params.id)
      if (body.dry_run) context.audit({ target: host.name, detail: `id ${host.id}, dry run` })
      if (body.dry_run) return { message: 'nothing was changed', data: await planRow(parts, host, settings) }
      context.audit({ target: host.name, detail: `id ${host.id}, ${settings.mode}, ${settings.parallel} at a time` })
      const request = { ...settings, id: operationId, hostId: host.id, startedBy: caller.user }
      const drain = await drains.begin(fleet, request)
      return { status: 202, message: 'the drain of the host has started', data: rowOf(host.id, drain, time) }
    },
  })
}

/** @throws {BerthError} `invalid_field` */
function settingsOf(body: Static<typeof DrainBodySchema>, time: TimeFormat): DrainSettings {
  const { mode = 'move', parallel = defaultParallel, bandwidth_mbps: bandwidthMbps = 0, deadline } = body
  const deadlineMs = deadline === undefined ? 0 : time.parseField('deadline', deadline.trim())
  if (deadline !== undefined && deadlineMs <= Date.now()) throw invalidField('deadline', 'must be in the future')
  return { mode, parallel, bandwidthMbps, deadlineMs }
}

const commands: Readonly<Record<DrainCommand, { readonly summary: string; readonly message: string }>> = {
  pause: {
    summary: 'Pauses the drain of a host. Tasks that have begun continue',
    message: 'the drain of the host is paused',
  },
  resume: {
    summary:
      'Resumes a paused, canceled or ended drain of a host, and removes its deadline. Containers that failed or were skipped are tried again',
    message: 'the drain of the host continues',
  },
  cancel: {
    summary:
      'Cancels the drain of a host. Tasks that have begun continue, and the host stays closed for new containers',
    message: 'the drain of the host is canceled',
  },
}

function commandRoute(
  parts: Parts,
  command: DrainCommand,
  { summary, message }: (typeof commands)[DrainCommand],
): Route {
  return route({
    ...common,
    method: 'POST',
    path: `${path}/${command}`,
    name: `${command}Drain`,
    scope: 'host:manage',
    audit: `host.drain_${command}`,
    summary,
    statuses: [202],
    errors: ['invalid_state'],
    handle: async (context) => {
      const { fleet, drains, time } = parts
      const { id, name } = getHost(parts, context.params.id)
      context.audit({ target: name, detail: `id ${id}` })
      return { status: 202, message, data: rowOf(id, await drains.command(fleet, id, command), time) }
    },
  })
}

function undrainRoute(parts: Parts): Route {
  return route({
    ...common,
    method: 'POST',
    path: '/hosts/{id}/undrain',
    name: 'undrainHost',
    scope: 'host:manage',
    audit: 'host.undrain',
    summary:
      'Opens a drained host for new containers, and cancels a drain in progress. With `bring_back`, the containers that have left the host return, and those that the drain has stopped are started',
    body: UndrainBodySchema,
    bodyOptional: true,
    example: { bring_back: true },
    statuses: [202],
    errors: ['invalid_state', 'drain_running'],
    handle: async (context) => {
      const { fleet, drains, time } = parts
      const { id, name } = getHost(parts, context.params.id)
      const bringBack = context.body?.bring_back ?? false
      context.audit({ target: name, detail: `id ${id}${bringBack ? ', containers return' : ''}` })
      const drain = await drains.undrain(fleet, id, { bringBack })
      return { status: 202, message: 'the host accepts containers again', data: rowOf(id, drain, time) }
    },
  })
}

function getHost({ fleet }: Parts, id: string): HostView {
  const host = fleet.view.findHost(id)
  if (!host) throw notFound('host')
  return host
}

async function planRow({ fleet, time }: Parts, { id }: HostView, settings: DrainSettings): Promise<DrainRow> {
  const guests = [...fleet.view.guestsOf(id)]
  const containers =
    settings.mode === 'stop'
      ? guests.map(plannedStopRow)
      : (await fleet.relocation.moves.planAll(guests)).map(plannedGuestRow)
  return { ...rowOf(id, { ...noDrain, ...settings }, time), state: 'planned', containers }
}

const noDrain: Omit<Drain, 'id' | 'hostId'> = {
  state: 'done',
  mode: 'move',
  direction: 'away',
  parallel: defaultParallel,
  bandwidthMbps: 0,
  deadlineMs: 0,
  guests: [],
  startedBy: '',
  startedAtMs: 0,
  endedAtMs: 0,
}

function rowOf(hostId: string, drain: Omit<Drain, 'id' | 'hostId'> | undefined, time: TimeFormat): DrainRow {
  const { state, mode, direction, parallel, bandwidthMbps, deadlineMs, startedBy, startedAtMs, endedAtMs, guests } =
    drain ?? noDrain
  return {
    host_id: hostId,
    state: drain ? state : 'none',
    mode,
    direction,
    parallel,
    bandwidth_mbps: bandwidthMbps,
    deadline: time.format(deadlineMs),
    started_by: startedBy,
    started_at: time.format(startedAtMs),
    ended_at: time.format(endedAtMs),
    containers: guests.map(guestRow),
  }
}

type GuestRow = Static<typeof DrainedGuestSchema>

function guestRow({ uuid, name, state, taskId, toHostId, message }: DrainedGuest): GuestRow {
  return {
    container_uuid: uuid,
    name,
    state,
    task_id: taskId,
    to_host_id: state === 'waiting' ? '' : toHostId,
    message,
  }
}

function plannedStopRow({ guest: { uuid, name, status } }: GuestView): GuestRow {
  const state = status === 'stopped' ? 'done' : 'waiting'
  return { container_uuid: uuid, name, state, task_id: '', to_host_id: '', message: '' }
}

function plannedGuestRow({ guest: { guest }, toHostId, message }: PlannedMove): GuestRow {
  const state = message === '' ? 'waiting' : 'failed'
  return { container_uuid: guest.uuid, name: guest.name, state, task_id: '', to_host_id: toHostId, message }
}
