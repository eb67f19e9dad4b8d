import { Type, type Static } from 'typebox'
import { isBound, type Principal } from '../../access/principal.js'
import type { Fleet, FleetView } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { QueuedSchema } from '../tasks/task-row.js'
import { ContainerPathSchema } from './containers.js'
import { loginFields, TemplateIdSchema } from './create/create-body.js'
import { checkTemplate, noTemplate, osOf } from './create/creations.js'
import { planReinstallLogin } from './create/plan-login.js'
import { queueOrder, type OrderCase } from './queue-order.js'

export const reinstallFields = {
  template_id: TemplateIdSchema,
  ...loginFields(
    'How to log in. `auto_password`: with a generated password. `password`: with `ssh_password`. `key`: with `ssh_public_key`. `keep`: as before the reinstall. Default: `password` or `key` if only the field of that mode is sent, else `auto_password`.',
  ),
  force: Type.Optional(Type.Boolean({ description: '`true`: stop the running system without a graceful shutdown.' })),
}
const ReinstallBodySchema = Type.Object(reinstallFields, { title: 'Reinstall' })
export type ReinstallBody = Static<typeof ReinstallBodySchema>

export const reinstallScope = 'container:reinstall'

const ReinstalledSchema = Type.Object(
  {
    ...QueuedSchema.properties,
    ssh_password: Type.String({
      description:
        'Password of the new login, in plain text. It is returned only in this answer. Empty in the modes `key` and `keep`.',
    }),
  },
  { title: 'QueuedReinstall' },
)

export function reinstallRoute(fleet: Fleet): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/reinstall',
    name: 'reinstallContainer',
    subUser: 'allowed',
    scope: reinstallScope,
    bound: 'guest',
    audit: 'container.reinstall',
    tag: 'Containers',
    summary:
      'Queues a reinstall from a template: a new disk with a new login. All other settings stay unchanged. If the reinstall fails, the old disk is restored',
    params: ContainerPathSchema,
    body: ReinstallBodySchema,
    example: { template_id: 'debian-12', ssh_auth_mode: 'auto_password' },
    data: ReinstalledSchema,
    conditional: true,
    statuses: [202],
    errors: [
      'invalid_state',
      'delete_protected',
      'image_disabled',
      'unsupported',
      'resource_exhausted',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
    ],
    handle: async (context) => {
      refuseOtherImages(context.caller, context.body.template_id)
      const order = planReinstall(fleet.view, context.body, context.caller)(context.guest.guest.uuid)
      const { data, sshPassword } = await queueOrder(fleet, context, { action: 'reinstall', order })
      return { status: 202, message: 'reinstall queued', data: { ...data, ssh_password: sshPassword } }
    },
  })
}

/** Rejects images that a sub-user may not use, as if they were unknown. @throws {BerthError} `invalid_field` */
function refuseOtherImages({ subUser }: Principal, templateId: string): void {
  if (subUser?.images && !subUser.images.has(templateId)) throw noTemplate()
}

/** @returns a function that creates the operation for a guest @throws {BerthError} `invalid_field`, `missing_field` */
export function planReinstall(view: FleetView, body: ReinstallBody, caller: Principal): (uuid: string) => OrderCase {
  const { template_id: templateId, force = false } = body
  checkTemplate(view, templateId)
  const login = planReinstallLogin(body, osOf(view, templateId))
  const liftBlock = !isBound(caller)
  return (uuid) => ({ $case: 'reinstall', value: { uuid, templateId, force, liftBlock, ...login } })
}
