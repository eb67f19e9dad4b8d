import type { Logger } from 'pino'
import { retryStage, undoStage } from '../../shared/task-stages.js'
import { planProgress, ProgressReporter } from './progress.js'
import { Interrupted, planBackoffMs, recordedError, recordedUndoFailure } from './retry.js'
import type { JournaledOperation, OperationError, OperationStore, StepWrite } from './operation-store.js'
import type {
  Clock,
  OperationDefinition,
  OperationOutcome,
  RetryPolicy,
  Step,
  StepContext,
  StepObserver,
} from './types.js'

export interface ExecutionParts {
  readonly store: OperationStore
  readonly clock: Clock
  readonly retry: RetryPolicy
  readonly signal: AbortSignal
  readonly observer: StepObserver | undefined
  readonly log: Logger
  /** Waits for `ms`, without counting towards the limit of parallel operations. @throws {Interrupted} */
  readonly pause: (ms: number) => Promise<void>
  /** Waits for `work`, without counting towards the limit of parallel operations (see `StepContext`). */
  readonly yieldWhile: <T>(work: Promise<T>) => Promise<T>
  /** Writes to the journal, and retries until this succeeds. @throws {Interrupted} */
  readonly persist: <T>(write: () => T) => Promise<T>
}

/** Error code that is stored if an operation is undone because it was canceled. */
const canceledCode = 'canceled'

interface Attempt {
  phase: 'run' | 'undo'
  index: number
  repeated: boolean
}

/** Runs one operation from its stored state to its outcome. */
export class Execution {
  readonly #id: string
  readonly #steps: readonly Step<unknown, string>[]
  readonly #weights: readonly number[]
  /** True if, in this version of the agent, the step at the stored index has the stored name. */
  readonly #known: boolean
  #progress: number
  /** The running step, if it is cancelable. */
  #cancelable: { readonly index: number; readonly abort: AbortController } | undefined

  constructor(
    private readonly parts: ExecutionParts,
    private readonly definition: OperationDefinition<unknown, string>,
    private readonly operation: JournaledOperation,
  ) {
    this.#id = operation.record.id
    this.#steps = definition.steps
    this.#weights = definition.steps.map((step) => step.weight ?? 1)
    this.#known = definition.steps[operation.step]?.name === operation.stepName
    this.#progress = operation.record.progress
  }

  /**
   * Stops the present step and undoes the operation. Before this method returns, the cancellation is in the journal.
   * @returns false if the present step must not be stopped
   */
  cancel(): boolean {
    const running = this.#cancelable
    if (!running || running.abort.signal.aborted || this.parts.signal.aborted) return false
    const written = this.#written(running.index, 'canceling')
    this.parts.store.beginUndo(this.#id, written, { code: canceledCode, message: 'canceled' })
    running.abort.abort()
    return true
  }

  /** Runs or continues the operation. @throws {Interrupted} if the agent shuts down first */
  async run(): Promise<OperationOutcome> {
    const outcome = await this.#run()
    const isCanceled = outcome.status === 'failed' && outcome.undone && outcome.code === canceledCode
    return isCanceled ? { status: 'canceled' } : outcome
  }

  async #run(): Promise<OperationOutcome> {
    const { record, step, undoing } = this.operation
    if (undoing) {
      const error = { code: record.errorCode, message: record.error }
      return this.#undo(this.#known ? step : this.#steps.length - 1, error, true)
    }
    const resumed = record.status === 'running'
    // If an update of the agent has changed the steps, all steps run again. This is safe, because steps are idempotent.
    const first = resumed && this.#known ? step : 0
    for (let index = first; index < this.#steps.length; index++) {
      const error = await this.#runStep(index, resumed && index <= Math.max(first, step))
      if (error) return this.#undo(index, error, false)
    }
    return { status: 'done' }
  }

  /** Runs one step. A failed step is repeated if the operation is `forwardOnly`. @returns the error of a failed step */
  async #runStep(index: number, repeated: boolean): Promise<OperationError | undefined> {
    const step = this.#step(index)
    this.#progress = planProgress(this.#weights, index, 0)
    await this.#journal(() => this.#beginStep(index))
    for (let attempt = 1; ; attempt++) {
      const error = await this.#attempt({ phase: 'run', index, repeated: repeated || attempt > 1 })
      if (!error || !this.definition.forwardOnly) return error
      const stage = retryStage(step.name)
      await this.#journal(() => this.parts.store.beginStep(this.#id, this.#written(index, stage), error))
      await this.parts.pause(planBackoffMs(this.parts.retry, attempt))
    }
  }

  #beginStep(index: number): void {
    const { store } = this.parts
    const { subject } = this.operation.record
    store.changes.transaction(() => {
      store.beginStep(this.#id, this.#written(index, this.#step(index).name))
      if (index === 0) this.definition.begin?.({ id: this.#id, subject, input: this.operation.input })
    })
  }

  /** Undoes the steps in reverse order, beginning with the failed step, which is possibly half done. */
  async #undo(from: number, error: OperationError, repeated: boolean): Promise<OperationOutcome> {
    for (let index = from; index >= 0; index--) {
      const step = this.#step(index)
      if (!step.undo) continue
      const written = this.#written(index, undoStage(step.name))
      await this.#journal(() => this.parts.store.beginUndo(this.#id, written, error))
      const failure = await this.#undoStep(index, repeated && index === from)
      // Earlier steps are not undone, because the step whose undo failed may still use their results.
      if (failure) return failed({ ...error, message: recordedUndoFailure(error, failure, step.name) }, false)
    }
    return failed(error, true)
  }

  async #undoStep(index: number, repeated: boolean): Promise<OperationError | undefined> {
    const { retry, pause } = this.parts
    for (let attempt = 1; ; attempt++) {
      const error = await this.#attempt({ phase: 'undo', index, repeated: repeated || attempt > 1 })
      if (!error || attempt >= retry.undoAttempts) return error
      await pause(planBackoffMs(retry, attempt))
    }
  }

  async #attempt(attempt: Attempt): Promise<OperationError | undefined> {
    const { phase, index } = attempt
    const step = this.#step(index)
    const stage = phase === 'run' ? step.name : undoStage(step.name)
    const reporter = new ProgressReporter((r) => this.#report(r.progress, r.stage), {
      progress: this.#progress,
      stage,
    })
    const abort = new AbortController()
    if (phase === 'run' && step.cancelable?.(this.operation.input)) this.#cancelable = { index, abort }
    try {
      await this.#observe(step, `before-${phase}`)
      await step[phase]?.(this.#context(attempt, reporter, abort.signal))
      await this.#observe(step, `after-${phase}`)
      return canceledBy(abort.signal)
    } catch (err) {
      if (this.parts.signal.aborted) throw new Interrupted()
      const canceled = canceledBy(abort.signal)
      if (!canceled) this.parts.log.warn({ err, step: step.name, phase }, 'a step of an operation failed')
      return canceled ?? recordedError(err)
    } finally {
      this.#cancelable = undefined
      reporter.close()
    }
  }

  #context(
    { phase, index, repeated }: Attempt,
    reporter: ProgressReporter,
    canceled: AbortSignal,
  ): StepContext<unknown> {
    const { log, yieldWhile } = this.parts
    // `AbortSignal.any` registers a listener on the agent's signal forever. Therefore only cancelable steps use it.
    const signal = this.#cancelable ? AbortSignal.any([this.parts.signal, canceled]) : this.parts.signal
    return {
      operationId: this.#id,
      subject: this.operation.record.subject,
      input: this.operation.input,
      repeated,
      signal,
      log,
      yieldWhile,
      noteDowntime: (downtimeMs) => this.parts.store.noteDowntime(this.#id, downtimeMs),
      report: (fraction, stage) => {
        if (phase === 'run') this.#progress = planProgress(this.#weights, index, fraction)
        reporter.report(this.#progress, stage)
      },
    }
  }

  /** Writes the progress. A failed write is only logged. */
  #report(progress: number, stage: string): void {
    try {
      this.parts.store.report(this.#id, progress, stage)
    } catch (err) {
      this.parts.log.warn({ err }, 'could not write the progress of an operation')
    }
  }

  /** Writes to the journal. @throws {Interrupted} if the agent is shutting down, so that no new work begins */
  async #journal(write: () => void): Promise<void> {
    if (this.parts.signal.aborted) throw new Interrupted()
    await this.parts.persist(write)
  }

  async #observe(step: Step<unknown, string>, phase: Parameters<StepObserver>[0]['phase']): Promise<void> {
    const { action } = this.definition
    await this.parts.observer?.({ operationId: this.#id, action, step: step.name, phase })
  }

  #written(step: number, stage: string): StepWrite {
    const stepName = this.#step(step).name
    return { step, stepName, stage, progress: this.#progress, nowMs: this.parts.clock.now() }
  }

  #step(index: number): Step<unknown, string> {
    const step = this.#steps[index]
    if (!step) throw new RangeError(`the operation ${this.definition.action} has no step ${index}`)
    return step
  }
}

function canceledBy(signal: AbortSignal): OperationError | undefined {
  return signal.aborted ? { code: canceledCode, message: 'canceled' } : undefined
}

function failed({ code, message }: OperationError, undone: boolean): OperationOutcome {
  return { status: 'failed', code, message, undone }
}
