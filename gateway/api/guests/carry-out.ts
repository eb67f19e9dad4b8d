import type { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import type { Fleet, OrderedOperation } from '../../fleet/contract.js'
import { isEnded, operationStatusOf } from '../../fleet/lists/operation-table.js'
import { queueOrder, type GuestRequest, type OrderCase } from './queue-order.js'

/** Maximum time in ms that a request waits for an operation. A longer operation continues as a task. */
const waitMs = 120_000

/**
 * Submits an operation and waits until the fleet view shows its end.
 * @returns the generated password, or the password from the request
 * @throws {BerthError} as `awaitDone`
 */
export async function carryOut(
  fleet: Fleet,
  context: GuestRequest,
  asked: { readonly action: string; readonly order: OrderCase },
): Promise<{ sshPassword: string }> {
  const { sshPassword } = await queueOrder(fleet, context, asked)
  await awaitDone(fleet, { hostId: context.guest.hostId, operationId: context.operationId })
  return { sshPassword }
}

/**
 * Waits until the fleet view shows the end of an accepted operation.
 * @throws {BerthError} as `unfinishedError`, or the failure of the operation
 */
export async function awaitDone(fleet: Fleet, operation: OrderedOperation): Promise<void> {
  const ended = await fleet.ended(operation, waitMs)
  if (!ended || !isEnded(ended.operation)) throw unfinishedError(fleet, operation)
  const { operationId } = operation
  const status = operationStatusOf(ended.operation)
  if (status === 'canceled') throw conflict('invalid_state', `task ${operationId} was canceled`)
  if (status === 'failed') throw failureOf(ended.operation)
}

/** Error `agent_timeout` with the id of a task whose end was not seen in time. The agent continues the task. */
export function unfinishedError({ view }: Fleet, { hostId, operationId }: OrderedOperation): BerthError {
  const why =
    view.findHost(hostId)?.state === 'online'
      ? `the task did not finish in time: task ${operationId} continues`
      : `the host went offline: task ${operationId} continues when the host is online again`
  return new BerthError('timeout', 'agent_timeout', why, { taskId: operationId })
}

const told: ReadonlySet<string> = new Set([
  'invalid_state',
  'guest_busy',
  'guest_refused',
  'memory_in_use',
  'swap_unsupported',
  'snapshot_space_exceeded',
])

/** Creates the error for a failed task. Most codes and texts are omitted, because they are for the host's operator. */
function failureOf({ id, errorCode, error }: Operation): BerthError {
  if (errorCode === 'storage_full') return new BerthError('exhausted', errorCode, error)
  if (told.has(errorCode)) return conflict(errorCode, error)
  return new BerthError('internal', 'agent_error', `task ${id} failed on the host`)
}
