import type { Logger } from 'pino'
import type { TaskStage } from '../../shared/task-stages.js'

/** The subject of an operation. Operations on one subject run one after another. */
export interface SubjectRef {
  /** Kind of the subject, for example `guest` or `image`. */
  readonly kind: string
  /** Id that is unique within the kind, for example a guest's uuid or a template's id. */
  readonly id: string
}

/** A subject with the name and number that users see. The name can be empty. */
export interface Subject extends SubjectRef {
  readonly name: string
  /** A guest's id in the fleet; 0 for other subjects. */
  readonly number: number
}

/** Facts and functions for a step while it runs. */
export interface StepContext<Input, Name extends string = TaskStage> {
  readonly operationId: string
  readonly subject: SubjectRef
  /** The operation's stored input, as plain JSON. */
  readonly input: Input
  /** True if this step may have run before, because the agent crashed or an attempt failed. */
  readonly repeated: boolean
  /**
   * Aborted when the agent shuts down or the operation is canceled. The step is then allowed to stop at any point.
   * After a shutdown, the step runs again.
   */
  readonly signal: AbortSignal
  readonly log: Logger
  /** Reports the progress within the step, from 0 to 1, and what the step does. */
  report(fraction: number, stage?: Name | `${Name}: ${string}`): void
  /** Records for how long a guest was paused during its live move. */
  noteDowntime(downtimeMs: number): void
  /**
   * Waits for work that several operations share, such as a download. Meanwhile, this operation does not count towards
   * the limit of parallel operations. Operations on the same subject wait. `work` should end if `signal` is aborted.
   * @returns the result of `work` when the limit allows this operation to continue; throws the error of `work`
   */
  yieldWhile<T>(work: Promise<T>): Promise<T>
}

/**
 * One step of an operation. `run` must be safe to repeat after an interruption at any point. `undo` must be safe to
 * repeat, no matter if `run` never began, stopped at any point or finished.
 */
export interface Step<Input, Name extends string = TaskStage> {
  readonly name: Name
  /** Weight in the operation's progress; default 1. */
  readonly weight?: number
  /**
   * Returns true if the operation can be canceled during this step. Default: false. A cancellation aborts `signal` and
   * undoes the operation. Ignored for a `forwardOnly` operation.
   */
  cancelable?(input: Input): boolean
  run(context: StepContext<Input, Name>): Promise<void>
  undo?(context: StepContext<Input, Name>): Promise<void>
}

export type OperationOutcome =
  | { status: 'done' }
  | { status: 'canceled' }
  /** `undone`: false if the undo of a step failed, too, so that a part of the change can be left. */
  | { status: 'failed'; code: string; message: string; undone: boolean }

/** The data of an operation that the functions of its definition get. */
export interface DefinedOperation<Input> {
  readonly id: string
  readonly subject: SubjectRef
  readonly input: Input
}

/** Defines how the engine runs all operations of one action. */
export interface OperationDefinition<Input, Name extends string = TaskStage> {
  readonly action: string
  readonly steps: readonly Step<Input, Name>[]
  /** True if the operation is never undone. A failed step is retried with back-off, even after restarts. */
  readonly forwardOnly?: boolean
  /** True if users' requests for the subject are refused until the operation has ended. If false, they are queued. */
  readonly exclusive?: boolean
  /**
   * Writes to the journal in the transaction that records the start of the first step. Must be synchronous, without
   * other effects. Runs again if a restart repeats the first step.
   */
  begin?(operation: DefinedOperation<Input>): void
  /** Writes to the journal in the transaction that ends the operation. Must be synchronous and do nothing else. */
  settle?(operation: DefinedOperation<Input>, outcome: OperationOutcome): void
}

export type OperationStatus = 'pending' | 'running' | 'done' | 'failed' | 'canceled'

/** An operation as shown to users. Times are in ms since 1970; 0 means not yet. */
export interface OperationRecord {
  id: string
  action: string
  subject: Subject
  status: OperationStatus
  /** Progress in percent, 0 to 100. */
  progress: number
  stage: string
  errorCode: string
  error: string
  createdAtMs: number
  startedAtMs: number
  finishedAtMs: number
  requestedBy: string
  revision: number
  /** Time in ms for which a guest was paused during its live move. 0: no such move, or it has not ended. */
  downtimeMs: number
  /** True if the operation ran on a former host of its guest. */
  moved: boolean
}

/** A point in an operation's run. The phases `after-…` occur only if the step did not throw. */
export interface StepEvent {
  operationId: string
  action: string
  step: string
  phase: 'before-run' | 'after-run' | 'before-undo' | 'after-undo'
}

/** Only for tests. The engine waits for the function at each `StepEvent`. If it throws, the step or its undo fails. */
export type StepObserver = (event: StepEvent) => void | Promise<void>

/** A source of time, replaceable in tests. */
export interface Clock {
  /** Returns the present time in ms since 1970. */
  now(): number
  /** Waits. The promise rejects when `signal` is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** Pauses between attempts double from `firstMs` to `maxMs`. */
export interface RetryPolicy {
  firstMs: number
  maxMs: number
  /** Number of attempts of an undo. If all fail, the operation ends as failed and not undone. */
  undoAttempts: number
}
