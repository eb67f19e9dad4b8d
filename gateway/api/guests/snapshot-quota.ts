import { Type, type Static } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { ContainerPathSchema } from './containers.js'
import { changeSetting, describeFields, type SettingOrder } from './guest-settings.js'
import { integerWithin } from './setting-schemas.js'

export const spaceLimitText =
  'Maximum disk space in bytes that all snapshots of the container together can retain. A snapshot that would exceed it is refused with `snapshot_space_exceeded`.'

const QuotaBodySchema = Type.Object(
  {
    snapshot_limit: integerWithin(
      limits.snapshots,
      'Maximum number of snapshots of the container. 0: no more snapshots can be taken. Existing snapshots above the limit are kept.',
    ),
    quota: integerWithin(limits.snapshots, 'Alias of `snapshot_limit`. Ignored if `snapshot_limit` is sent.'),
    space_limit_bytes: integerWithin(
      limits.snapshotSpaceBytes,
      'Maximum disk space in bytes that all snapshots of the container together can retain. If omitted, it is unchanged. 0: the default, twice the disk size. Existing snapshots above the limit are kept. Only for callers that are not bound to containers.',
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

export function quotaRoute(fleet: Fleet): Route {
  return route({
    bound: 'guest',
    tag: 'Snapshots',
    method: 'PUT',
    path: '/containers/{id}/snapshots/quota',
    name: 'setSnapshotQuota',
    subUser: 'refused',
    scope: 'snapshot:schedule',
    audit: 'snapshot.quota',
    summary: 'Sets how many snapshots a container can have, and how much disk space they can retain',
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

/** @throws {BerthError} `insufficient_scope` for customers, because the provider decides on the space for snapshots */
function checkMaySetSpace(caller: Principal): void {
  const field = 'space_limit_bytes'
  if (isBound(caller))
    throw new BerthError(
      ...(['forbidden', 'insufficient_scope'] as const),
      `${field}: only for callers that are not bound to containers`,
      { field },
    )
}

/** Parses a quota. Old agents only support quotas without a space limit. @throws {BerthError} `missing_field` */
function parseQuota({ snapshot_limit, quota, space_limit_bytes: spaceBytes }: QuotaBody): SettingOrder['change'] {
  const limit = snapshot_limit ?? quota
  if (spaceBytes !== undefined) return { $case: 'snapshotQuota', value: { limit, spaceBytes } }
  if (limit !== undefined) return { $case: 'snapshotLimit', value: limit }
  throw new BerthError('invalid', 'missing_field', 'snapshot_limit: is required', { field: 'snapshot_limit' })
}
