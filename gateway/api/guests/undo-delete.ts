import { Type } from 'typebox'
import { hourMs, maxUndoHours } from '../../../shared/deletion-rules.js'
import { BerthError } from '../../../shared/errors.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { requireFeature } from '../../fleet/require-feature.js'
import { route, type Route } from '../../http/route.js'
import type { PanelSettings } from '../../settings/panel-settings.js'
import { ContainerPathSchema } from './containers.js'
import { changeSetting, findAudited } from './guest-settings.js'

export type DeletionSettings = Pick<PanelSettings, 'undoDeleteHours'>

const SettingsSchema = Type.Object(
  {
    undo_delete_hours: Type.Integer({
      minimum: 0,
      maximum: maxUndoHours,
      description: 'Time in hours for which a deletion can be undone. 0 (default): containers are removed at once.',
    }),
  },
  { title: 'DeletionSettings' },
)

export interface UndoDeleteParts {
  readonly fleet: Fleet
  readonly settings: DeletionSettings
}

/**
 * Time in ms for which the container is retained after its deletion. 0: the container is removed immediately.
 * Containers with the status `error` are always removed immediately.
 * @param now true if the caller wants to remove the container immediately
 * @throws {BerthError} `agent_outdated`
 */
export function retentionOf({ fleet, settings }: UndoDeleteParts, { hostId, guest }: GuestView, now: boolean): number {
  const hours = now || guest.status === 'error' ? 0 : settings.undoDeleteHours.current
  const host = fleet.view.findHost(hostId)
  if (hours > 0 && host?.state === 'online') requireFeature(host, 'undelete')
  return hours * hourMs
}

/**
 * Returns whether the caller wants to remove a container immediately.
 * @throws {BerthError} `insufficient_scope` if the caller may access only some containers: a thief of its key must not
 * be able to remove the data of these containers for ever
 */
export function checkNow(caller: Principal, now = false): boolean {
  if (now && isBound(caller))
    throw new BerthError(
      'forbidden',
      'insufficient_scope',
      'now: only callers with access to all containers may use it',
    )
  return now
}

export function undoDeleteRoutes({ fleet, settings: { undoDeleteHours } }: UndoDeleteParts): Route[] {
  const common = {
    path: '/deletion-settings',
    scope: 'admin:access',
    bound: 'refused',
    tag: 'Settings',
    data: SettingsSchema,
  } as const
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getDeletionSettings',
      summary: 'Returns how long the deletion of a container can be undone',
      handle: () => ({ data: { undo_delete_hours: undoDeleteHours.current } }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateDeletionSettings',
      audit: 'deletion_settings.update',
      summary: 'Sets how long the deletion of a container can be undone. The setting applies to later deletions only',
      body: SettingsSchema,
      example: { undo_delete_hours: 24 },
      handle: async (context) => {
        const { undo_delete_hours: wanted } = context.body
        context.audit({ detail: `undo_delete_hours ${wanted}` })
        const hours = await undoDeleteHours.update(() => wanted)
        return { message: 'deletion settings updated', data: { undo_delete_hours: hours } }
      },
    }),
    route({
      method: 'POST',
      path: '/containers/{id}/undelete',
      name: 'undeleteContainer',
      scope: 'container:delete',
      bound: 'refused',
      audit: 'container.undelete',
      tag: 'Containers',
      summary:
        'Undoes the deletion of a container that was not removed yet. A container that was running before is started again',
      params: ContainerPathSchema,
      conditional: true,
      errors: ['invalid_state', 'host_offline', 'agent_timeout'],
      handle: async (context) => {
        const guest = findAudited(fleet, context)
        const wasDeleted = guest.guest.deletion !== undefined
        const change = { $case: 'undelete', value: {} } as const
        if (wasDeleted) await changeSetting(fleet, { ...context, guest }, { change, detail: 'deletion undone' })
        return { message: wasDeleted ? 'container restored' : 'the container was not deleted' }
      },
    }),
  ]
}
