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
      '`disk`: its own. `cdrom`: an ISO image first, its disk after it; virtual machines alone. `rescue`: a system beside its disk, which a container has at `/mnt` and a virtual machine as `/dev/vdb`.',
    ),
    image: Type.Optional(
      Type.String({
        ...trimmed,
        pattern: optionalTemplateIdPattern,
        description:
          'Of `cdrom`: an image of type `iso`. Of `rescue`: absent or empty is the usual one. Of `disk`: none.',
      }),
    ),
    force: Type.Optional(Type.Boolean({ description: 'Without a graceful shutdown of what runs now.' })),
  },
  { title: 'Boot' },
)
type BootBody = Static<typeof BootBodySchema>

const BootedSchema = Type.Object(
  {
    ...QueuedSchema.properties,
    ssh_password: Type.String({ description: 'Of root in `rescue`, in clear, only here; else empty.' }),
  },
  { title: 'QueuedBoot' },
)

export function bootRoute(fleet: Fleet): Route {
  return route({
    method: 'PUT',
    path: '/containers/{id}/boot',
    name: 'changeBoot',
    subUser: 'allowed',
    scope: reinstallScope, // who boots another system has all of the disk
    bound: 'guest',
    audit: 'container.boot',
    tag: 'Containers',
    summary:
      'Queues that a container boots its disk, a CD or a rescue system: now if it runs, else at its next start; where that fails, it boots what it did before',
    params: ContainerPathSchema,
    body: BootBodySchema,
    example: { mode: 'rescue' },
    data: BootedSchema,
    conditional: true,
    statuses: [202],
    errors: [
      ...['invalid_state', 'image_disabled', 'unsupported', 'resource_exhausted', 'precondition_failed'],
      ...['host_offline', 'agent_timeout'],
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

/** An image that a sub-user may not have is to it like one that is not there. @throws {BerthError} `invalid_field` */
function imageOf({ mode, image = '' }: BootBody, { subUser }: Principal): string {
  if (mode === 'cdrom' && image === '') throw invalidField('image', 'image: cdrom needs one')
  if (mode === 'disk' && image !== '') throw invalidField('image', 'image: the disk has none')
  if (image !== '' && subUser?.images && !subUser.images.has(image))
    throw invalidField('image', `image: no template ${image}`)
  return image
}
