import type { Logger } from 'pino'
import { conflict } from '../../shared/errors.js'
import type { Changes } from '../state/changes.js'
import type { SubmittedOperation } from './removed.js'
import type { Clock, OperationDefinition, OperationRecord, RetryPolicy, StepObserver, Subject } from './types.js'

export interface EngineOptions {
  changes: Changes
  definitions: readonly OperationDefinition<unknown, string>[]
  /** Maximum number of operations that run in parallel. */
  parallel: number
  log: Logger
  clock?: Clock
  retry?: RetryPolicy
  observer?: StepObserver
}

export interface Submission {
  /** Id of the operation, chosen by the caller. A repeated id stands for the same operation. */
  id: string
  action: string
  subject: Subject
  /** Input for the steps, as plain JSON. */
  input: unknown
  /** Value that is equal in all repetitions of a request. The engine compares its hash. Default: `input`. */
  hashOf?: unknown
  requestedBy: string
  /** Makes checks and reservations in the transaction that writes the operation. Throws to refuse the operation. */
  reserve?: () => void
}

export interface EngineStats {
  running: number
  pending: number
  /** `done`, `failed` and `canceled` are numbers of operations with this outcome since the engine was created. */
  done: number
  failed: number
  canceled: number
}

/** Answers a request with a known operation id. @throws {BerthError} `operation_conflict` if the request differs */
export function repeated(known: SubmittedOperation, requestHash: string): OperationRecord {
  if (known.requestHash === requestHash) return known.record
  throw conflict('operation_conflict', 'this operation id was already used for a different request')
}
