import type { Logger } from 'pino'
import { conflict } from '../../shared/errors.js'
import type { Changes } from '../state/changes.js'
import type { SubmittedOperation } from './removed.js'
import type {
  Clock,
  OperationDefinition,
  OperationRecord,
  RetryPolicy,
  StepObserver,
  Subject,
} from './types.js'

export interface EngineOptions {
  changes: Changes
  definitions: readonly OperationDefinition<unknown>[]
  /** Operations that run at once. */
  parallel: number
  log: Logger
  clock?: Clock
  retry?: RetryPolicy
  observer?: StepObserver
}

export interface Submission {
  /** Chosen by who asks: the same id again is the same operation. */
  id: string
  action: string
  subject: Subject
  /** Plain JSON; what the steps see. */
  input: unknown
  /** What tells a repetition from another request; default `input`. */
  hashOf?: unknown
  requestedBy: string
  /** Writes of the domain in the same transaction; what it throws refuses the operation. */
  reserve?: () => void
}

export interface EngineStats {
  running: number
  pending: number
  /** Since the engine was made. */
  done: number
  failed: number
  canceled: number
}

/** @throws {BerthError} `operation_conflict` */
export function repeated(known: SubmittedOperation, requestHash: string): OperationRecord {
  if (known.requestHash === requestHash) return known.record
  throw conflict('operation_conflict', 'this operation id belongs to another request')
}
