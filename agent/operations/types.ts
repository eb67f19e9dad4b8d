import type { Logger } from 'pino'

/** The subject of an operation. Operations on one subject run one after another. */
export interface SubjectRef {
  /** `guest`, `image`, … */
  readonly kind: string
  /** Unique within its kind: a guest's uuid, a template's id. */
  readonly id: string
}

/** A subject with its names for users, which may be empty. */
export interface Subject extends SubjectRef {
  readonly name: string
  /** A guest's id in the fleet; 0 for other subjects. */
  readonly number: number
}

/** The context of a step. */
export interface StepContext<Input> {
  readonly operationId: string
  readonly subject: SubjectRef
  /** Input as stored in the journal: plain JSON that survives a restart. */
  readonly input: Input
  /** True if this step may have run before: after a crash, or again after a failure. */
  readonly repeated: boolean
  /**
   * Aborted when the agent shuts down, or the operation is canceled. The step may stop at any point; after a shutdown
   * it runs again.
   */
  readonly signal: AbortSignal
  readonly log: Logger
  /** Reports progress within the step, 0 to 1, and a text for users. */
  report(fraction: number, stage?: string): void
  /**
   * Waits for shared work (such as a download that several operations need) without occupying one of the places for
   * running operations. The subject stays busy. `work` should end when `signal` is aborted.
   * @returns or throws the result of `work`, once this operation has a place again
   */
  yieldWhile<T>(work: Promise<T>): Promise<T>
}

/**
 * One effect. `run` must be safe to repeat from any point at which it was interrupted. `undo` must be safe to repeat,
 * and safe whether `run` never began, stopped at any point or finished.
 */
export interface Step<Input> {
  readonly name: string
  /** Weight in the operation's progress; default 1. */
  readonly weight?: number
  /**
   * True if the operation may be canceled during this step: `signal` is aborted and everything undone. Ignored for a
   * `forwardOnly` operation.
   */
  readonly cancelable?: boolean
  run(context: StepContext<Input>): Promise<void>
  undo?(context: StepContext<Input>): Promise<void>
}

export type OperationOutcome =
  | { status: 'done' }
  | { status: 'canceled' }
  /** `undone` is false if an undo failed too. */
  | { status: 'failed'; code: string; message: string; undone: boolean }

/** An operation as its definition sees it. */
export interface DefinedOperation<Input> {
  readonly id: string
  readonly subject: SubjectRef
  readonly input: Input
}

/** Describes operations of one action for the engine. */
export interface OperationDefinition<Input> {
  readonly action: string
  readonly steps: readonly Step<Input>[]
  /** Never undone: a failing step is retried with back-off, also after restarts (used by delete). */
  readonly forwardOnly?: boolean
  /**
   * Writes to the database in the transaction that begins the operation with its first step. Synchronous, without other
   * effects; runs again when the first step does.
   */
  begin?(operation: DefinedOperation<Input>): void
  /** Writes to the database in the transaction that ends the operation. Synchronous, without other effects. */
  settle?(operation: DefinedOperation<Input>, outcome: OperationOutcome): void
}

export type OperationStatus = 'pending' | 'running' | 'done' | 'failed' | 'canceled'

/** An operation as shown to users. Times are in ms since 1970; 0: not yet. */
export interface OperationRecord {
  id: string
  action: string
  subject: Subject
  status: OperationStatus
  /** 0 to 100. */
  progress: number
  stage: string
  errorCode: string
  error: string
  createdAtMs: number
  startedAtMs: number
  finishedAtMs: number
  requestedBy: string
  revision: number
}

/** A point in an operation's run; `after-…` occurs only if the step did not throw. */
export interface StepEvent {
  operationId: string
  action: string
  /** The step's name. */
  step: string
  phase: 'before-run' | 'after-run' | 'before-undo' | 'after-undo'
}

/** Awaited at each point; an error counts as the failure of the step or its undo. For tests. */
export type StepObserver = (event: StepEvent) => void | Promise<void>

/** A source of time, replaceable in tests. */
export interface Clock {
  /** ms since 1970. */
  now(): number
  /** Rejects when aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** Pauses between attempts double from `firstMs` to `maxMs`. */
export interface RetryPolicy {
  firstMs: number
  maxMs: number
  /** Attempts of an undo before the operation ends as failed and not undone. */
  undoAttempts: number
}
