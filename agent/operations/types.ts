import type { Logger } from 'pino'

/** What operations are about; those of one run one after another. */
export interface SubjectRef {
  /** `guest`, `image`, … */
  readonly kind: string
  /** Unique among those of its kind: a guest's uuid, a template's id. */
  readonly id: string
}

/** With what people know it by; that may be empty. */
export interface Subject extends SubjectRef {
  readonly name: string
  /** Of a guest: its id in the fleet; else 0. */
  readonly number: number
}

/** What a step sees. */
export interface StepContext<Input> {
  readonly operationId: string
  readonly subject: SubjectRef
  /** As journaled: plain JSON, survives a restart. */
  readonly input: Input
  /** True when this step may have run before: after a crash, or again after a failure. */
  readonly repeated: boolean
  /** Aborted when the agent shuts down, or the operation is canceled; the step may stop anywhere, it will run again. */
  readonly signal: AbortSignal
  readonly log: Logger
  /** Progress within the step, 0 to 1, and what is being done, for people. */
  report(fraction: number, stage?: string): void
  /**
   * Waits for what others do (a download that many share) without occupying one of the operations that may run
   * at once; the subject stays busy. `work` should end when `signal` is aborted.
   * @returns or throws what `work` does, once this operation has a place again
   */
  yieldWhile<T>(work: Promise<T>): Promise<T>
}

/**
 * One effect. `run` must be safe to repeat from any point it may have been interrupted at. `undo` must be
 * safe when `run` never began, stopped anywhere or finished, and safe to repeat.
 */
export interface Step<Input> {
  readonly name: string
  /** Share of the operation's progress; default 1. */
  readonly weight?: number
  /** While it runs, the operation may be canceled: `signal` is aborted and everything undone. Not of a `forwardOnly` one. */
  readonly cancelable?: boolean
  run(context: StepContext<Input>): Promise<void>
  undo?(context: StepContext<Input>): Promise<void>
}

export type OperationOutcome =
  | { status: 'done' }
  | { status: 'canceled' }
  /** `undone` is false when an undo failed too. */
  | { status: 'failed'; code: string; message: string; undone: boolean }

/** As its definition sees it. */
export interface DefinedOperation<Input> {
  readonly id: string
  readonly subject: SubjectRef
  readonly input: Input
}

export interface OperationDefinition<Input> {
  readonly action: string
  readonly steps: readonly Step<Input>[]
  /** Never undone: a failing step is retried with backoff, after restarts too (delete). */
  readonly forwardOnly?: boolean
  /**
   * Database writes in the transaction that begins the operation, with its first step. Synchronous, no other
   * effects; run again where the first step is.
   */
  begin?(operation: DefinedOperation<Input>): void
  /** Database writes in the transaction that ends the operation. Synchronous, no other effects. */
  settle?(operation: DefinedOperation<Input>, outcome: OperationOutcome): void
}

export type OperationStatus = 'pending' | 'running' | 'done' | 'failed' | 'canceled'

/** A journaled operation, as shown. Times: ms since 1970, 0 = not yet. */
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

/** Where an operation is; `after-…` only when it did not throw. */
export interface StepEvent {
  operationId: string
  action: string
  /** The step's name. */
  step: string
  phase: 'before-run' | 'after-run' | 'before-undo' | 'after-undo'
}

/** Awaited at each point; what it throws counts as the step's (or its undo's) own failure. For tests. */
export type StepObserver = (event: StepEvent) => void | Promise<void>

/** Time, replaceable in tests. */
export interface Clock {
  /** ms since 1970. */
  now(): number
  /** Rejects when aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** Waits between attempts double from `firstMs` to `maxMs`. */
export interface RetryPolicy {
  firstMs: number
  maxMs: number
  /** How often an undo is tried before the operation ends as failed and not undone. */
  undoAttempts: number
}
