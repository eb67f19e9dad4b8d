import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import type { Principal } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { trimmed } from '../../http/normalize.js'
import { optionalTemplateIdPattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { QueuedSchema } from '../tasks/task-row.js'
import { ContainerPathSchema } from './containers.js'
import { bootModes } from './guest-row.js'
import { queueOrder } from './queue-order.js'
import { reinstallScope } from './reinstall.js'

const BootBodySchema = Type.Object(
  {
    mode: oneOf(
      bootModes,
      '`disk`: boot from the container’s own disk. `cdrom`: boot from an ISO image first, then from the disk; only for virtual machines. `rescue`: boot a rescue system, in which the container’s disk is mounted at `/mnt` (LXC container) or is `/dev/vdb` (virtual machine).',
    ),
    image: Type.Optional(
      Type.String({
        ...trimmed,
        pattern: optionalTemplateIdPattern,
        description:
          'For `cdrom`: id of an image of type `iso`. For `rescue`: id of a rescue image; if omitted or empty, the default rescue image is used. Not allowed for `disk`.',
      }),
    ),
    force: Type.Optional(Type.Boolean({ description: '`true`: stop the running system without a graceful shutdown.' })),
  },
  { title: 'Boot' },
)
type BootBody = Static<typeof BootBodySchema>

const BootedSchema = Type.Object(
  {
    ...QueuedSchema.properties,
    ssh_password: Type.String({
      description:
        'Password of root in the `rescue` system, in plain text. It is returned only in this answer. Empty for the modes `disk` and `cdrom`.',
    }),
  },
  { title: 'QueuedBoot' },
)

export function bootRoute(fleet: Fleet): Route {
  return route({
    method: 'PUT',
    path: '/containers/{id}/boot',
    name: 'changeBoot',
    subUser: 'allowed',
    scope: reinstallScope, // needs the right to reinstall: a system booted from an image can access the whole disk
    bound: 'guest',
    audit: 'container.boot',
    tag: 'Containers',
    summary:
      'Queues a change of the boot medium: the disk, a CD or a rescue system. A running container boots from it now, a stopped one at its next start. If this fails, the earlier boot medium is restored',
    params: ContainerPathSchema,
    body: BootBodySchema,
    example: { mode: 'rescue' },
    data: BootedSchema,
    conditional: true,
    statuses: [202],
    errors: [
      'invalid_state',
      'image_disabled',
      'unsupported',
      'resource_exhausted',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
    ],
    handle: async (context) => {
      const { guest } = context.guest
      const { mode, force = false } = context.body
      const image = imageOf(context.body, context.caller)
      const order = { $case: 'changeBoot', value: { uuid: guest.uuid, mode, image, force } } as const
      const { data, sshPassword } = await queueOrder(fleet, context, { action: 'boot', order })
      return {
        status: 202,
        message: `boot from ${mode} queued`,
        data: { ...data, ssh_password: sshPassword },
      }
    },
  })
}

/** Rejects images that a sub-user may not use, as if they were unknown. @throws {BerthError} `invalid_field` */
function imageOf({ mode, image = '' }: BootBody, { subUser }: Principal): string {
  if (mode === 'cdrom' && image === '') throw invalidField('image', 'image: is required if the mode is cdrom')
  if (mode === 'disk' && image !== '') throw invalidField('image', 'image: not allowed if the mode is disk')
  if (image !== '' && subUser?.images && !subUser.images.has(image))
    throw invalidField('image', `image: template ${image} does not exist`)
  return image
}
