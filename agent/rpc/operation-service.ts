import type { Logger } from 'pino'
import type { OperationServiceServer } from '../../proto/gen/berth/agent/v1/operation.js'
import type { OperationEngine } from '../operations/engine.js'
import type { Changes } from '../state/changes.js'
import { encodeOperation } from './encode.js'
import { unary } from './unary.js'

export function createOperationService(
  engine: OperationEngine,
  changes: Changes,
  log: Logger,
): OperationServiceServer {
  return {
    getOperation: unary(log, 'read operation', ({ id }) => ({ operation: encodeOperation(engine.get(id)) })),
    cancelOperation: unary(log, 'cancel operation', ({ id }) => ({
      operation: encodeOperation(engine.cancel(id)),
      revision: changes.revision,
    })),
    removeOperation: unary(log, 'remove operation', ({ id }) => {
      engine.remove(id)
      return { revision: changes.revision }
    }),
  }
}
