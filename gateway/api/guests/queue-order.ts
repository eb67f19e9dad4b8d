import type { Static } from 'typebox'
import type { Operation, SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { Fleet } from '../../fleet/contract.js'
import { operationStatusOf } from '../../fleet/lists/operation-table.js'
import { checkIfMatch } from '../../http/if-match.js'
import type { RequestContext, Subjects } from '../../http/route.js'
import type { QueuedSchema } from '../tasks/task-row.js'

export type OrderCase = SubmitOperationRequest['order']
export type GuestRequest = RequestContext<unknown, unknown, unknown> & Subjects['guest']

/** Submits an operation on the request's container and waits until the fleet view shows it. */
export async function queueOrder(
  fleet: Fleet,
  context: GuestRequest,
  { action, order }: { readonly action: string; readonly order: OrderCase },
): Promise<{ data: Static<typeof QueuedSchema>; sshPassword: string }> {
  const { hostId, guest } = context.guest
  context.audit({ detail: `id ${guest.id}, task ${context.operationId}` })
  await checkIfMatch(fleet, guest.uuid, context)
  const { operation, revision, sshPassword } = await fleet.agent(hostId).operations.submitOperation({
    operationId: context.operationId,
    requestedBy: context.caller.user,
    order,
  })
  await fleet.reached(hostId, revision)
  const status = operation ? queuedStatusOf(operation) : 'pending'
  const data = { task_id: context.operationId, container_name: guest.name, status, action }
  return { data, sshPassword }
}

/** Status for the answer. A running task counts as queued, too. */
function queuedStatusOf(operation: Operation): Static<typeof QueuedSchema>['status'] {
  const status = operationStatusOf(operation)
  return status === 'running' ? 'pending' : status
}
