import type { Logger } from 'pino'
import { conflict } from '../../shared/errors.js'
import type { Changes } from '../state/changes.js'
import type { SubmittedOperation } from './removed.js'
import type { Clock, OperationDefinition, OperationRecord, RetryPolicy, StepObserver, Subject } from './types.js'

export interface EngineOptions {
  changes: Changes
  definitions: readonly OperationDefinition<unknown>[]
  /** Maximum number of operations that run in parallel. */
  parallel: number
  log: Logger
  clock?: Clock
  retry?: RetryPolicy
  observer?: StepObserver
}

export interface Submission {
  /** Chosen by the caller: the same id means the same operation. */
  id: string
  action: string
  subject: Subject
  /** Plain JSON; passed to the steps. */
  input: unknown
  /** Value that differs between different requests and is equal for a repetition; default `input`. */
  hashOf?: unknown
  requestedBy: string
  /** Writes of the domain in the same transaction; an error refuses the operation. */
  reserve?: () => void
}

export interface EngineStats {
  running: number
  pending: number
  /** Counted since the engine was created. */
  done: number
  failed: number
  canceled: number
}

/** Returns the record of a repeated request. @throws {BerthError} `operation_conflict` for another request */
export function repeated(known: SubmittedOperation, requestHash: string): OperationRecord {
  if (known.requestHash === requestHash) return known.record
  throw conflict('operation_conflict', 'this operation id belongs to another request')
}
