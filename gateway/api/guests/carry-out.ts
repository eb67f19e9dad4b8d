import type { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import type { Fleet } from '../../fleet/contract.js'
import { isEnded, operationStatusOf } from '../../fleet/lists/operation-table.js'
import { queueOrder, type GuestRequest, type Order } from './queue-order.js'

/** Longest wait for an answer; what takes longer goes on as a task. */
const waitMs = 120_000

/**
 * Has the agent carry out an order and waits until the view shows its end.
 * @returns the password that was made, or sent with the order
 * @throws {BerthError} `agent_timeout` when it takes too long and goes on as a task; or the operation's failure
 */
export async function carryOut(
  fleet: Fleet,
  context: GuestRequest,
  asked: { readonly action: string; readonly order: Order },
): Promise<{ sshPassword: string }> {
  const { sshPassword } = await queueOrder(fleet, context, asked)
  await awaitDone(fleet, context.operationId)
  return { sshPassword }
}

/**
 * Waits for the end of an operation that was ordered, which the view shows then.
 * @throws {BerthError} `agent_timeout` where it takes too long: the task goes on; and what it failed with
 */
export async function awaitDone(fleet: Fleet, operationId: string): Promise<void> {
  const ended = await fleet.ended(operationId, waitMs)
  if (!ended || !isEnded(ended.operation))
    throw new BerthError('timeout', 'agent_timeout', `not done yet: task ${operationId} goes on`)
  const status = operationStatusOf(ended.operation)
  if (status === 'canceled') throw conflict('invalid_state', `task ${operationId} was canceled`)
  if (status === 'failed') throw failureOf(ended.operation)
}

const told: ReadonlySet<string> = new Set([
  ...['invalid_state', 'guest_busy', 'guest_refused', 'memory_in_use', 'swap_unsupported', 'snapshot_space_exceeded'],
])

/** What is wrong with the host is its operator's business: no text and no code of that. */
function failureOf({ id, errorCode, error }: Operation): BerthError {
  if (errorCode === 'storage_full') return new BerthError('exhausted', errorCode, error)
  if (told.has(errorCode)) return conflict(errorCode, error)
  return new BerthError('internal', 'agent_error', `the host failed: task ${id}`)
}
