import { Type, type Static } from 'typebox'
import type { BackupSettings } from '../../../proto/gen/berth/agent/v1/backup.js'
import { uuidPattern } from '../../../shared/guest-rules.js'
import { BerthError, notFound } from '../../../shared/errors.js'
import type { Principal } from '../../access/principal.js'
import { coversScope } from '../../access/scopes.js'
import type { Fleet } from '../../fleet/contract.js'
import type { CreationBackup } from '../../fleet/creation-contract.js'
import { requireFeature } from '../../fleet/require-feature.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Answer, type RequestContext, type Route } from '../../http/route.js'
import { CreateBodySchema } from '../guests/create/create-body.js'
import { checkCreation, CreatedSchema, orderCreation } from '../guests/create/creations.js'
import { placementErrors } from '../guests/placement-row.js'
import { chooseHost } from '../host-choice.js'
import { findBackup, openTarget, type BackupLocation } from './backup-location.js'
import { planNewGuest } from './plan-new-guest.js'
import { targetErrors } from './kept.js'
import type { BackupParts } from './targets.js'

const { user_data: _firstBoot, ...settings } = CreateBodySchema.properties

const NewGuestSchema = Type.Object(
  {
    target_id: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'Id of the target that contains the backup. Only allowed together with `container_uuid`. Both can be omitted if `GET /backups` lists the backup.',
      }),
    ),
    container_uuid: Type.Optional(
      Type.String({
        ...trimmed,
        format: 'uuid',
        description:
          'UUID of the container from which the backup was made. Send it together with `target_id` if that container no longer exists, or if `GET /backups` does not list the backup. The caller then also needs the scope `backuptarget:read`.',
      }),
    ),
    ...Type.Partial(Type.Object(settings)).properties,
  },
  { title: 'NewContainerFromBackup' },
)
type NewGuest = Static<typeof NewGuestSchema>

const PathSchema = Type.Object({ backup_id: Type.String({ pattern: uuidPattern }) })

export function restoreAsNewRoute(parts: BackupParts): Route {
  return route({
    method: 'POST',
    path: '/backups/{backup_id}/restore',
    name: 'restoreBackupAsNew',
    scope: 'container:create',
    bound: 'refused',
    audit: 'backup.restore_as_new',
    tag: 'Backups',
    summary:
      'Queues the creation of a container from a backup, also from a backup of a deleted container. The request has the same fields as `POST /containers`. Omitted fields have the values that the original container had when the backup was made; host ports and public addresses are chosen automatically. `name` and `template_id` are required for backups that an older version of Berth made. The caller also needs the scope `backup:restore`. The new container gets its own login and host name, a new `machine-id` and new SSH host keys. A failed creation is undone',
    params: PathSchema,
    body: NewGuestSchema,
    bodyOptional: true,
    example: { name: 'web1-restored' },
    data: CreatedSchema,
    statuses: [202],
    errors: [
      'missing_field',
      'name_conflict',
      'port_conflict',
      'address_in_use',
      'resource_exhausted',
      ...placementErrors,
      'unsupported',
      'agent_outdated',
      'host_offline',
      'agent_timeout',
      'backup_target_missing',
      ...targetErrors,
    ],
    handle: (context) => restoreAsNew(parts, context),
  })
}

async function restoreAsNew(
  parts: BackupParts,
  context: RequestContext<Static<typeof PathSchema>, unknown, NewGuest | undefined>,
): Promise<Answer<Static<typeof CreatedSchema>>> {
  const { caller, params } = context
  const { target_id: targetId, container_uuid: containerUuid, ...body } = context.body ?? {}
  const place = locate(parts.fleet, caller, { backupId: params.backup_id, targetId, containerUuid })
  const target = await openTarget(parts, place.targetId)
  const at = { target, sourceUuid: place.sourceUuid, backupId: params.backup_id }
  const recorded = await readSettings(parts.fleet, at, body.host_id)
  const wanted = planNewGuest(body, recorded, { time: parts.time, nowMs: Date.now() })
  const planned = await checkCreation(parts, wanted, caller, { hasTemplate: false })
  const { hostId, ...data } = await orderCreation(parts, { ...planned, backup: at }, context)
  const detail = `backup ${params.backup_id} of container ${place.sourceUuid}, id ${data.id}, host ${hostId}, task ${context.operationId}${planned.summary && `, ${planned.summary}`}`
  context.audit({ target: data.name, detail, containerUuid: data.uuid })
  return { status: 202, message: 'creation queued', data }
}

interface WantedBackup {
  readonly backupId: string
  readonly targetId: string | undefined
  readonly containerUuid: string | undefined
}

/** @throws {BerthError} `insufficient_scope`, `missing_field`, `not_found` */
function locate({ view }: Fleet, caller: Principal, wanted: WantedBackup): BackupLocation {
  const { backupId, targetId, containerUuid: sourceUuid } = wanted
  requireScope(caller, 'backup:restore')
  if (targetId === undefined && sourceUuid === undefined) {
    const found = findBackup(view.guests(), backupId)
    if (!found) throw notFound('backup')
    return found
  }
  const field = targetId === undefined ? 'target_id' : 'container_uuid'
  if (targetId === undefined || sourceUuid === undefined)
    throw new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
  requireScope(caller, 'backuptarget:read')
  return { targetId, sourceUuid }
}

/** @throws {BerthError} `insufficient_scope` */
function requireScope({ scopes }: Principal, scope: string): void {
  if (!coversScope(scopes, scope))
    throw new BerthError('forbidden', 'insufficient_scope', `this requires the scope ${scope}`)
}

/**
 * Reads the recorded settings of a backup from its target. Returns undefined if the backup contains no settings.
 * @param hostId host that reads the target. Default: the first online host
 * @throws {BerthError} `not_found` if the target has no such backup, `agent_outdated`, errors of the target
 */
export async function readSettings(
  fleet: Fleet,
  { target, sourceUuid, backupId }: CreationBackup,
  hostId: string | undefined,
): Promise<BackupSettings | undefined> {
  const host = chooseHost(fleet.view, hostId === '' ? undefined : hostId)
  requireFeature(host, 'create-from-backup')
  const { backups, settings } = await fleet.agent(host.id).backups.listBackups({ target, uuid: sourceUuid })
  if (!backups.some(({ id }) => id === backupId)) throw notFound('backup')
  return settings.find((one) => one.backupId === backupId)
}
