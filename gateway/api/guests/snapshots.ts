import { Type, type Static } from 'typebox'
import { conflict } from '../../../shared/errors.js'
import { descriptionPattern } from '../../../shared/guest-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Snapshot } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Fleet, FleetView, GuestView } from '../../fleet/contract.js'
import { actorDescription, ownNameOf, shownActor } from '../../access/shown-actor.js'
import { guestsOf, type Principal } from '../../access/principal.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { TimeSchema } from '../../http/schema.js'
import { carryOut } from './carry-out.js'
import { ContainerPathSchema } from './containers.js'
import { textFilter } from './guest-row.js'
import { scheduleRoute, scheduleRow, ScheduleSchema } from './snapshot-schedule.js'
import { quotaRoute, spaceLimitText } from './snapshot-quota.js'

const SnapshotSchema = Type.Object(
  {
    id: Type.String(),
    container_id: Type.Integer(),
    container_name: Type.String(),
    created_at: TimeSchema,
    created_by: Type.String({ description: `Caller that requested the snapshot. ${actorDescription}` }),
    scheduled: Type.Boolean({
      description: '`true`: the snapshot schedule took the snapshot. `false`: a caller requested it.',
    }),
    size_bytes: Type.Integer({
      description: 'Disk usage of the container in bytes when the snapshot was taken. 0: not known.',
    }),
    description: Type.String(),
  },
  { title: 'Snapshot' },
)
type SnapshotRow = Static<typeof SnapshotSchema>

const spaceUsedText =
  'Disk space in bytes that all snapshots of the container together retain. The real value may be lower. This space does not count towards the disk size of the container.'

const ContainerSnapshotsSchema = Type.Object(
  {
    quota: Type.Integer({ description: 'Maximum number of snapshots of the container. 0: no snapshots can be taken.' }),
    space_used_bytes: Type.Integer({ description: spaceUsedText }),
    space_limit_bytes: Type.Integer({ description: spaceLimitText }),
    schedule: ScheduleSchema,
    snapshots: Type.Array(SnapshotSchema),
  },
  { title: 'ContainerSnapshots' },
)

const CreateSnapshotSchema = Type.Object(
  {
    description: Type.Optional(
      Type.String({
        pattern: descriptionPattern,
        description: 'Description of the snapshot: at most 200 printable characters on one line.',
      }),
    ),
  },
  { title: 'NewSnapshot' },
)

const SnapshotPathSchema = Type.Object({
  ...ContainerPathSchema.properties,
  snapshot_id: Type.String({ maxLength: 64 }),
})

interface Parts {
  readonly fleet: Fleet
  readonly time: TimeFormat
}
type Context = RequestContext<unknown, unknown, unknown> & Subjects['guest']

const listedBy = ['id', 'container_id', 'container_name', 'created_at', 'size_bytes'] as const

const ofContainer = { bound: 'guest', tag: 'Snapshots' } as const
const writeErrors = ['invalid_state', 'precondition_failed', 'storage_full', 'host_offline', 'agent_timeout']

export function snapshotRoutes(parts: Parts): Route[] {
  return [...readRoutes(parts), ...writeRoutes(parts), quotaRoute(parts.fleet), scheduleRoute(parts.fleet)]
}

function readRoutes({ fleet, time }: Parts): Route[] {
  return [
    route({
      method: 'GET',
      path: '/snapshots',
      name: 'listSnapshots',
      sortable: listedBy,
      query: listQuery({ container_name: textFilter }),
      subUser: 'refused',
      scope: 'snapshot:read',
      bound: 'own',
      tag: 'Snapshots',
      summary: 'Lists the snapshots of all containers, newest first',
      data: Type.Array(SnapshotSchema),
      handle: ({ caller, query }) =>
        listAnswer(listVisible(fleet.view, caller, time), query, {
          sortable: listedBy,
          filters: ['container_name'],
        }),
    }),
    route({
      ...ofContainer,
      method: 'GET',
      path: '/containers/{id}/snapshots',
      name: 'getContainerSnapshots',
      subUser: 'allowed',
      scope: 'snapshot:read',
      summary: 'Lists the snapshots of a container, newest first, and its snapshot limit',
      params: ContainerPathSchema,
      data: ContainerSnapshotsSchema,
      handle: ({ guest, caller }) => ({
        data: {
          quota: guest.guest.snapshotLimit,
          space_used_bytes: guest.guest.snapshotSpaceUsedBytes,
          space_limit_bytes: guest.guest.snapshotSpaceLimitBytes,
          schedule: scheduleRow(guest.guest.snapshotSchedule, time, ownNameOf(caller)),
          snapshots: sorted([guest]).map((found) => snapshotRow(found, time, caller)),
        },
      }),
    }),
  ]
}

function writeRoutes({ fleet, time }: Parts): Route[] {
  return [
    route({
      ...ofContainer,
      method: 'POST',
      path: '/containers/{id}/snapshots',
      name: 'createSnapshot',
      subUser: 'allowed',
      scope: 'snapshot:create',
      audit: 'snapshot.create',
      summary: 'Takes a snapshot of a container. The answer is sent when the snapshot is complete',
      params: ContainerPathSchema,
      body: CreateSnapshotSchema,
      bodyOptional: true,
      example: { description: 'before the upgrade' },
      data: SnapshotSchema,
      statuses: [201],
      conditional: true,
      errors: [...writeErrors, 'quota_exceeded', 'snapshot_space_exceeded'],
      handle: async (context) => {
        const { uuid } = context.guest.guest
        const description = context.body?.description ?? ''
        const order = { $case: 'snapshotCreate', value: { uuid, description } } as const
        await carryOut(fleet, context, { action: 'snapshot-create', order })
        return {
          status: 201,
          message: 'snapshot taken',
          data: snapshotRow(getTaken(fleet.view, context), time, context.caller),
        }
      },
    }),
    route({
      ...ofContainer,
      method: 'POST',
      path: '/containers/{id}/snapshots/{snapshot_id}/restore',
      name: 'restoreSnapshot',
      subUser: 'allowed',
      scope: 'snapshot:restore',
      audit: 'snapshot.restore',
      summary:
        'Restores a snapshot. A running container is stopped at once and started again. The answer is sent when this is done. ' +
        'Afterwards the disk has the passwords and keys that were on it when the snapshot was taken',
      params: SnapshotPathSchema,
      conditional: true,
      errors: writeErrors,
      handle: async (context) => {
        const value = { uuid: context.guest.guest.uuid, snapshotId: context.params.snapshot_id }
        const order = { $case: 'snapshotRestore', value } as const
        await carryOut(fleet, context, { action: 'snapshot-restore', order })
        return { message: 'snapshot restored' }
      },
    }),
    route({
      ...ofContainer,
      method: 'DELETE',
      path: '/containers/{id}/snapshots/{snapshot_id}',
      name: 'deleteSnapshot',
      subUser: 'allowed',
      scope: 'snapshot:delete',
      audit: 'snapshot.delete',
      summary: 'Deletes a snapshot. The answer is sent when the snapshot is deleted',
      params: SnapshotPathSchema,
      conditional: true,
      errors: writeErrors,
      handle: async (context) => {
        const value = { uuid: context.guest.guest.uuid, snapshotId: context.params.snapshot_id }
        const order = { $case: 'snapshotDelete', value } as const
        await carryOut(fleet, context, { action: 'snapshot-delete', order })
        return { message: 'snapshot deleted' }
      },
    }),
  ]
}

interface GuestSnapshot {
  readonly view: GuestView
  readonly snapshot: Snapshot
}

/** Returns the snapshot that this request took. @throws {BerthError} `invalid_state` if it was deleted meanwhile */
function getTaken(view: FleetView, { guest, operationId }: Context): GuestSnapshot {
  const shown = view.findGuest(guest.guest.uuid)
  const snapshot = shown?.guest.snapshots.find(({ id }) => id === operationId)
  if (shown && snapshot) return { view: shown, snapshot }
  throw conflict('invalid_state', 'the snapshot was deleted in the meantime')
}

function listVisible(view: FleetView, caller: Principal, time: TimeFormat): SnapshotRow[] {
  return sorted(guestsOf(caller, view)).map((found) => snapshotRow(found, time, caller))
}

function sorted(guests: Iterable<GuestView>): GuestSnapshot[] {
  const found = [...guests].flatMap((view) =>
    [...view.guest.snapshots].reverse().map((snapshot) => ({ view, snapshot })),
  )
  return found.sort((a, b) => b.snapshot.createdAtMs - a.snapshot.createdAtMs)
}

function snapshotRow({ view: { guest }, snapshot }: GuestSnapshot, time: TimeFormat, caller: Principal): SnapshotRow {
  return {
    id: snapshot.id,
    container_id: guest.id,
    container_name: guest.name,
    created_at: time.format(snapshot.createdAtMs),
    created_by: shownActor(snapshot.createdBy, ownNameOf(caller)),
    scheduled: snapshot.scheduled,
    size_bytes: snapshot.sizeBytes,
    description: snapshot.description,
  }
}
