import { Type } from 'typebox'
import { checkSshPassword, sshPasswordRule } from '../../../shared/guest-rules.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { carryOut } from './carry-out.js'
import { ContainerPathSchema } from './containers.js'

const ResetBodySchema = Type.Object(
  {
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: `New password, which must be ${sshPasswordRule}. If omitted or empty, a password is generated.`,
      }),
    ),
  },
  { title: 'ResetPassword' },
)

const PasswordSchema = Type.Object(
  {
    password: Type.String({ description: 'New password of root, in plain text. It is returned only in this answer.' }),
  },
  { title: 'Password' },
)

export function resetPasswordRoute(fleet: Fleet): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/reset-password',
    name: 'resetPassword',
    subUser: 'allowed',
    scope: 'container:password',
    bound: 'guest',
    audit: 'container.reset_password',
    tag: 'Containers',
    summary:
      'Sets a new password for root of a running or stopped container. If the password only takes effect at the next start, the message says so',
    params: ContainerPathSchema,
    body: ResetBodySchema,
    bodyOptional: true,
    example: { password: 'S3cret-enough' },
    data: PasswordSchema,
    conditional: true,
    errors: ['invalid_state', 'guest_busy', 'guest_refused', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: async (context) => {
      const { guest } = context.guest
      const password = context.body?.password ?? ''
      if (password !== '') checkSshPassword(password, 'password')
      const order = { $case: 'resetPassword', value: { uuid: guest.uuid, password } } as const
      const { sshPassword } = await carryOut(fleet, context, { action: 'reset-password', order })
      const later = fleet.view.findGuest(guest.uuid)?.guest.atNextStart.includes('password')
      const message = later ? 'password set: it takes effect at the next start' : 'password set'
      return { message, data: { password: sshPassword } }
    },
  })
}
