import type { GuestRecord } from '../guests/record/record.js'
import type { Logger } from 'pino'
import type {
  OperationServiceServer,
  SubmitOperationRequest,
  SubmitOperationResponse,
} from '../../proto/gen/berth/agent/v1/operation.js'
import { BerthError } from '../../shared/errors.js'
import { parseRequester, parseUuid } from '../guests/create/parse-create.js'
import type { OperationEngine } from '../operations/engine.js'
import type { Order, Orders, SubmittedOrder } from '../operations/orders.js'
import type { Changes } from '../state/changes.js'
import { encodeGuest } from './encode.js'
import { unary } from './unary.js'

export interface OperationServiceParts {
  engine: OperationEngine
  orders: Orders<GuestRecord>
  changes: Changes
  log: Logger
}

export function createOperationService({
  engine,
  orders,
  changes,
  log,
}: OperationServiceParts): OperationServiceServer {
  return {
    submitOperation: unary(log, 'submit operation', async (request) =>
      encodeSubmitted(await orders.submit(parseOrder(request)), changes.revision),
    ),
    getOperation: unary(log, 'read operation', ({ id }) => ({ operation: engine.get(id) })),
    cancelOperation: unary(log, 'cancel operation', ({ id }) => ({
      operation: engine.cancel(id),
      revision: changes.revision,
    })),
    removeOperation: unary(log, 'remove operation', ({ id }) => {
      engine.remove(id)
      return { revision: changes.revision }
    }),
  }
}

/** @throws {BerthError} `invalid_field`, or `unsupported` if this agent does not know the requested operation */
export function parseOrder({ operationId, requestedBy, order }: SubmitOperationRequest): Order {
  const ordered = {
    operationId: parseUuid('operation_id', operationId),
    requestedBy: parseRequester(requestedBy),
  }
  if (!order)
    throw new BerthError(
      'invalid',
      'unsupported',
      'order: this version of the agent does not support this kind of operation',
    )
  return { ...ordered, order }
}

function encodeSubmitted(
  { operation, guest, sshPassword = '' }: SubmittedOrder<GuestRecord>,
  revision: number,
): SubmitOperationResponse {
  const shown = guest && encodeGuest(guest)
  return { operation, revision, guest: shown, sshPassword }
}
