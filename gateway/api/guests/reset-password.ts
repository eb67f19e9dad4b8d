import { Type } from 'typebox'
import { OperationStatus, type Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError, conflict, invalidField, toBerthError } from '../../../shared/errors.js'
import { checkSshPassword } from '../../../shared/guest-rules.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { ContainerPathSchema } from './containers.js'
import { queueOrder } from './queue-order.js'

const ResetBodySchema = Type.Object(
  {
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: '8 to 64 characters, letters and digits, no whitespace. Absent or empty: one is made.',
      }),
    ),
  },
  { title: 'ResetPassword' },
)

const PasswordSchema = Type.Object(
  { password: Type.String({ description: 'In clear, only here.' }) },
  { title: 'Password' },
)

export function resetPasswordRoute(fleet: Fleet): Route {
  return route({
    method: 'POST',
    path: '/containers/{id}/reset-password',
    name: 'resetPassword',
    scope: 'container:password',
    bound: 'guest',
    audit: 'container.reset_password',
    tag: 'Containers',
    summary: 'Sets a new password of root, running or stopped; it holds when this is answered',
    params: ContainerPathSchema,
    body: ResetBodySchema,
    bodyOptional: true,
    example: { password: 'S3cret-enough' },
    data: PasswordSchema,
    conditional: true,
    errors: [
      ...['invalid_state', 'guest_busy', 'guest_refused', 'precondition_failed'],
      ...['host_offline', 'agent_timeout'],
    ],
    handle: async (context) => {
      const { hostId, guest } = context.guest
      const password = context.body?.password ?? ''
      if (password !== '') checkPassword(password)
      const order = { $case: 'resetPassword', value: { uuid: guest.uuid, password } } as const
      const queued = await queueOrder(fleet, context, { action: 'reset-password', order })
      await waitUntilDone(fleet, hostId, context.operationId)
      return { message: 'password set', data: { password: queued.sshPassword } }
    },
  })
}

/** The rules of `ssh_password`, under the name it has here. */
function checkPassword(password: string): void {
  try {
    checkSshPassword(password)
  } catch (error) {
    throw invalidField('password', toBerthError(error, 'check password').message.replace('ssh_', ''))
  }
}

/**
 * The view shows what it did when this resolves.
 * @throws {BerthError} why it failed; `agent_timeout` where it waits for others, and goes on
 */
async function waitUntilDone(fleet: Fleet, hostId: string, id: string): Promise<void> {
  const { operation, revision } = await fleet.agent(hostId).operations.waitOperation({ id })
  if (operation?.status !== OperationStatus.OPERATION_STATUS_DONE) throw failureOf(operation)
  await fleet.reached(hostId, revision)
}

function failureOf(operation: Operation | undefined): BerthError {
  const { errorCode = '', error = '' } = operation ?? {}
  if (/^[a-z][a-z0-9_]{0,63}$/.test(errorCode) && errorCode !== 'internal_error')
    return conflict(errorCode, error.slice(0, 1024))
  return new BerthError('internal', 'agent_error', 'the host failed: set password')
}
