import { randomUUID } from 'node:crypto'
import { Type, type Static } from 'typebox'
import type { GuestStandby } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { StandbyChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { standbyLimits, usualStandbyMinutes } from '../../../shared/standby-rules.js'
import { notFound } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { noStandby } from '../../fleet/move-contract.js'
import { route, type Route } from '../../http/route.js'
import { timeSchema } from '../../http/schema.js'
import { ContainerPathSchema } from './containers.js'
import { changeSetting, findAudited } from './guest-settings.js'

const { intervalMinutes, bandwidthMbps } = standbyLimits

const BodySchema = Type.Object(
  {
    host_id: Type.String({ minLength: 1, maxLength: 64, description: 'Host that stores the copy.' }),
    interval_minutes: Type.Optional(
      Type.Integer({
        minimum: intervalMinutes.min,
        maximum: intervalMinutes.max,
        description: `Minutes between two increments. Default: ${usualStandbyMinutes}.`,
      }),
    ),
    bandwidth_mbps: Type.Optional(
      Type.Integer({
        minimum: bandwidthMbps.min,
        maximum: bandwidthMbps.max,
        description: 'Limit of the transfer in Mbit/s. 0 or absent: unlimited.',
      }),
    ),
  },
  { title: 'SetContainerStandby' },
)

const RowSchema = Type.Object(
  {
    host_id: Type.String({ description: 'Host that stores the copy. Empty: the container has no warm standby.' }),
    interval_minutes: Type.Integer({ description: 'Minutes between two increments. 0: there is no standby.' }),
    bandwidth_mbps: Type.Integer({ description: 'Limit of the transfer in Mbit/s. 0: unlimited.' }),
    last_increment_at: timeSchema('the disk was captured for the copy', 'there is no complete copy yet'),
    age_seconds: Type.Integer({ description: 'Age of this state. -1: there is no complete copy yet.' }),
    sent_bytes: Type.Integer({ description: 'Bytes that the last complete increment has transferred.' }),
    last_attempt_at: timeSchema('the last attempt ended', 'there was none yet'),
    failures: Type.Integer({ description: 'Failed attempts since the last complete increment.' }),
    error: Type.String({
      description:
        'Error of the last attempt. If the container has moved and its standby is not set again yet, a message about this. Empty: the last attempt succeeded, or there was none yet.',
    }),
  },
  { title: 'ContainerStandby' },
)

interface Parts {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

export function standbyRoutes(parts: Parts): Route[] {
  return [getRoute(parts), setRoute(parts), deleteRoute(parts)]
}

function getRoute({ fleet, time }: Parts): Route {
  return route({
    method: 'GET',
    path: '/containers/{id}/standby',
    name: 'getContainerStandby',
    scope: 'host:read',
    bound: 'refused',
    subUser: 'refused',
    tag: 'Containers',
    summary: 'Returns the warm standby of a container, and the age of its copy',
    params: ContainerPathSchema,
    data: RowSchema,
    errors: [],
    handle: async ({ params }) => {
      const guest = fleet.view.findGuest(params.id)
      if (!guest) throw notFound('container')
      const { uuid, standby } = guest.guest
      if (standby) return { data: rowOf(standby, time) }
      const recorded = await fleet.relocation.standbys.findRecorded(uuid)
      return { data: rowOf({ ...noResult, ...(recorded ? { ...recorded, error: movedText } : noStandby) }, time) }
    },
  })
}

function setRoute({ fleet, time }: Parts): Route {
  return route({
    method: 'PUT',
    path: '/containers/{id}/standby',
    name: 'setContainerStandby',
    scope: 'host:manage',
    bound: 'refused',
    subUser: 'refused',
    audit: 'container.standby',
    tag: 'Containers',
    summary:
      'Sets the warm standby of a container: another host stores a copy of its disk and receives the changes at a fixed interval. The copy is started only if the containers of a failed host are restored. The copy on a former host is removed. If the container moves, a gateway sets the standby again on the same host. If the container moved to this host, its former host gets the copy. If that host cannot store it, the standby ends. Only for LXC containers',
    params: ContainerPathSchema,
    body: BodySchema,
    example: { host_id: 'host-2', interval_minutes: 5, bandwidth_mbps: 100 },
    data: RowSchema,
    conditional: true,
    errors: [
      'invalid_field',
      'unsupported',
      'invalid_state',
      'guest_moving',
      'resource_exhausted',
      'agent_outdated',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
    ],
    handle: async (context) => {
      const { body } = context
      const guest = findAudited(fleet, context)
      const { standbys } = fleet.relocation
      await standbys.refuseUnfit(guest, body.host_id)
      const before = guest.guest.standby
      const isSame = before?.hostId === body.host_id
      const value: StandbyChange = {
        standbyId: isSame ? before.standbyId : randomUUID(),
        hostId: body.host_id,
        intervalMinutes: body.interval_minutes ?? usualStandbyMinutes,
        bandwidthMbps: body.bandwidth_mbps ?? 0,
      }
      const detail = `host ${value.hostId}, every ${value.intervalMinutes} minutes`
      const changed = await changeSetting(fleet, { ...context, guest }, { change: { $case: 'standby', value }, detail })
      await standbys.record(guest, value)
      if (before && !isSame) await standbys.forget(guest.guest.uuid, before)
      return { message: 'the standby is set', data: rowOf(changed.guest.standby!, time) }
    },
  })
}

function deleteRoute({ fleet }: Parts): Route {
  return route({
    method: 'DELETE',
    path: '/containers/{id}/standby',
    name: 'removeContainerStandby',
    scope: 'host:manage',
    bound: 'refused',
    subUser: 'refused',
    audit: 'container.standby_remove',
    tag: 'Containers',
    summary: 'Removes the warm standby of a container, and its copy',
    params: ContainerPathSchema,
    conditional: true,
    errors: ['invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: async (context) => {
      const guest = findAudited(fleet, context)
      const { uuid, standby } = guest.guest
      const { standbys } = fleet.relocation
      const before = standby ?? (await standbys.findRecorded(uuid))
      if (!before) throw notFound('standby of this container')
      const change = { $case: 'standby', value: noStandby } as const
      await standbys.withdraw(uuid, async () => {
        await changeSetting(fleet, { ...context, guest }, { change, detail: `host ${before.hostId}` })
      })
      await standbys.forget(uuid, before)
      return { message: 'the standby is removed' }
    },
  })
}

const noResult = { takenAtMs: 0, sentBytes: 0, triedAtMs: 0, failures: 0, error: '' }
const movedText = 'the container has moved: a gateway sets the standby again when its host is ready for it'

function rowOf(standby: GuestStandby, time: TimeFormat): Static<typeof RowSchema> {
  const { hostId } = standby
  const takenAtMs = Math.min(standby.takenAtMs, Date.now()) // the clock of the host can be wrong
  return {
    host_id: hostId,
    interval_minutes: standby.intervalMinutes,
    bandwidth_mbps: standby.bandwidthMbps,
    last_increment_at: time.format(takenAtMs),
    age_seconds: takenAtMs === 0 ? -1 : Math.max(0, Math.round((Date.now() - takenAtMs) / 1000)),
    sent_bytes: standby.sentBytes,
    last_attempt_at: time.format(standby.triedAtMs),
    failures: standby.failures,
    error: standby.error,
  }
}
