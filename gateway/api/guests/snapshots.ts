import { Type, type Static } from 'typebox'
import { BerthError, conflict } from '../../../shared/errors.js'
import { descriptionPattern, limits } from '../../../shared/guest-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Snapshot } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Fleet, FleetView, GuestView } from '../../fleet/contract.js'
import { guestsOf, isBound, type Principal } from '../../access/principal.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { TimeSchema } from '../../http/schema.js'
import { carryOut } from './carry-out.js'
import { ContainerPathSchema } from './containers.js'
import { textFilter } from './guest-row.js'
import { scheduleRoute, scheduleRow, ScheduleSchema } from './snapshot-schedule.js'
import { integerWithin } from './setting-schemas.js'
import { changeSetting, describeFields, type SettingOrder } from './guest-settings.js'

const SnapshotSchema = Type.Object(
  {
    id: Type.String(),
    container_id: Type.Integer(),
    container_name: Type.String(),
    created_at: TimeSchema,
    created_by: Type.String(),
    scheduled: Type.Boolean({ description: '`true`: a schedule took the snapshot.' }),
    size_bytes: Type.Integer({
      description: 'Disk usage of the container in bytes when the snapshot was taken. 0: not known.',
    }),
    description: Type.String(),
  },
  { title: 'Snapshot' },
)
type SnapshotRow = Static<typeof SnapshotSchema>

export const spaceUsedText =
  'Upper bound of the disk space that all snapshots together retain. It does not reduce the size of the disk.'
export const spaceLimitText =
  'Limit of the space that all snapshots together may retain. A snapshot that would exceed it is refused (snapshot_space_exceeded).'

const ContainerSnapshotsSchema = Type.Object(
  {
    quota: Type.Integer({ description: 'Maximum number of snapshots. 0: none.' }),
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
        description: 'At most 200 printable characters on one line.',
      }),
    ),
  },
  { title: 'NewSnapshot' },
)

const QuotaBodySchema = Type.Object(
  {
    snapshot_limit: integerWithin(
      limits.snapshots,
      'Maximum number of snapshots. 0: none. Existing snapshots above the limit are kept.',
    ),
    quota: integerWithin(limits.snapshots, 'Alias of `snapshot_limit`, which takes precedence.'),
    space_limit_bytes: integerWithin(
      limits.snapshotSpaceBytes,
      'Disk space that all snapshots together may retain. 0: the default, twice the disk size. Existing snapshots above the limit are kept. Only for callers that are not bound to containers.',
    ),
  },
  { title: 'SnapshotQuota' },
)
type QuotaBody = Static<typeof QuotaBodySchema>

const QuotaSchema = Type.Object(
  {
    quota: Type.Integer(),
    container: Type.Object({
      id: Type.Integer(),
      name: Type.String(),
      snapshot_limit: Type.Integer(),
      snapshot_space_limit_bytes: Type.Integer({ description: spaceLimitText }),
    }),
  },
  { title: 'SnapshotQuotaResult' },
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
      handle: ({ guest }) => ({
        data: {
          quota: guest.guest.snapshotLimit,
          space_used_bytes: guest.guest.snapshotSpaceUsedBytes,
          space_limit_bytes: guest.guest.snapshotSpaceLimitBytes,
          schedule: scheduleRow(guest.guest.snapshotSchedule, time),
          snapshots: sorted([guest]).map((found) => snapshotRow(found, time)),
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
      summary: 'Takes a snapshot. Answers when it is taken',
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
          data: snapshotRow(getTaken(fleet.view, context), time),
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
        'Restores a snapshot. A running container is stopped at once and started again. Answers when it is done. ' +
        'Afterwards the passwords and keys on the disk are those of the time of the snapshot',
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
      summary: 'Deletes a snapshot. Answers when it is done',
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

function quotaRoute(fleet: Fleet): Route {
  return route({
    ...ofContainer,
    method: 'PUT',
    path: '/containers/{id}/snapshots/quota',
    name: 'setSnapshotQuota',
    subUser: 'refused',
    scope: 'snapshot:schedule',
    audit: 'snapshot.quota',
    summary: 'Sets how many snapshots a container may have, and how much space they may retain',
    params: ContainerPathSchema,
    body: QuotaBodySchema,
    example: { snapshot_limit: 3, space_limit_bytes: 21_474_836_480 },
    data: QuotaSchema,
    conditional: true,
    errors: [
      ...(['insufficient_scope', 'invalid_state', 'precondition_failed', 'resource_exhausted'] as const),
      ...(['host_offline', 'agent_timeout'] as const),
    ],
    handle: async (context) => {
      if (context.body.space_limit_bytes !== undefined) checkMaySetSpace(context.caller)
      const change = parseQuota(context.body)
      const detail = describeFields(context.body)
      const { guest } = await changeSetting(fleet, context, { change, detail })
      const { id, name, snapshotLimit, snapshotSpaceLimitBytes } = guest
      const limited = { snapshot_limit: snapshotLimit, snapshot_space_limit_bytes: snapshotSpaceLimitBytes }
      return { message: 'quota updated', data: { quota: snapshotLimit, container: { id, name, ...limited } } }
    },
  })
}

/** The space is the provider's: customers cannot give themselves more. @throws {BerthError} `insufficient_scope` */
function checkMaySetSpace(caller: Principal): void {
  const field = 'space_limit_bytes'
  if (isBound(caller))
    throw new BerthError(
      ...(['forbidden', 'insufficient_scope'] as const),
      `${field}: only for callers that are not bound to containers`,
      { field },
    )
}

/** Agents that do not know a limit of space still get the number. @throws {BerthError} `missing_field` */
function parseQuota({ snapshot_limit, quota, space_limit_bytes: spaceBytes }: QuotaBody): SettingOrder['change'] {
  const limit = snapshot_limit ?? quota
  if (spaceBytes !== undefined) return { $case: 'snapshotQuota', value: { limit, spaceBytes } }
  if (limit !== undefined) return { $case: 'snapshotLimit', value: limit }
  throw new BerthError('invalid', 'missing_field', 'snapshot_limit: is required', { field: 'snapshot_limit' })
}

interface GuestSnapshot {
  readonly view: GuestView
  readonly snapshot: Snapshot
}

/** The snapshot has the operation's id. It may be deleted already. */
function getTaken(view: FleetView, { guest, operationId }: Context): GuestSnapshot {
  const shown = view.findGuest(guest.guest.uuid)
  const snapshot = shown?.guest.snapshots.find(({ id }) => id === operationId)
  if (shown && snapshot) return { view: shown, snapshot }
  throw conflict('invalid_state', 'the snapshot was deleted in the meantime')
}

function listVisible(view: FleetView, caller: Principal, time: TimeFormat): SnapshotRow[] {
  return sorted(guestsOf(caller, view)).map((found) => snapshotRow(found, time))
}

/** Newest first. */
function sorted(guests: Iterable<GuestView>): GuestSnapshot[] {
  const found = [...guests].flatMap((view) =>
    [...view.guest.snapshots].reverse().map((snapshot) => ({ view, snapshot })),
  )
  return found.sort((a, b) => b.snapshot.createdAtMs - a.snapshot.createdAtMs)
}

function snapshotRow({ view: { guest }, snapshot }: GuestSnapshot, time: TimeFormat): SnapshotRow {
  return {
    id: snapshot.id,
    container_id: guest.id,
    container_name: guest.name,
    created_at: time.format(snapshot.createdAtMs),
    created_by: snapshot.createdBy,
    scheduled: snapshot.scheduled,
    size_bytes: snapshot.sizeBytes,
    description: snapshot.description,
  }
}
