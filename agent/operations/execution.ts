import type { Logger } from 'pino'
import { BerthError } from '../../shared/errors.js'
import { planProgress, ProgressReporter } from './progress.js'
import { Interrupted, planBackoffMs, recordedError, recordedUndoFailure } from './retry.js'
import type { JournaledOperation, OperationError, OperationStore, StepWrite } from './store.js'
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
  /** Waits without occupying a place in which another operation could run. @throws {Interrupted} */
  readonly pause: (ms: number) => Promise<void>
  /** Waits for `work` in the same way. */
  readonly yieldWhile: <T>(work: Promise<T>) => Promise<T>
  /** Retries a journal write until it succeeds. @throws {Interrupted} */
  readonly persist: <T>(write: () => T) => Promise<T>
}

/** What the journal has of an operation that was canceled while it ran, until it is undone. */
const canceled: OperationError = { code: 'canceled', message: 'canceled' }

interface Attempt {
  phase: 'run' | 'undo'
  index: number
  repeated: boolean
}

/** Runs one operation from its journaled position to its outcome. */
export class Execution {
  readonly #id: string
  readonly #steps: readonly Step<unknown>[]
  readonly #weights: readonly number[]
  /** Whether the journaled step index has the same meaning in this version. */
  readonly #known: boolean
  readonly #stop = new AbortController()
  readonly #signal: AbortSignal
  #index = 0
  #undoing = false
  #progress: number

  constructor(
    private readonly parts: ExecutionParts,
    private readonly definition: OperationDefinition<unknown>,
    private readonly operation: JournaledOperation,
  ) {
    this.#id = operation.record.id
    this.#steps = definition.steps
    this.#weights = definition.steps.map((step) => step.weight ?? 1)
    this.#known = definition.steps[operation.step]?.name === operation.stepName
    this.#progress = operation.record.progress
    this.#undoing = operation.undoing
    this.#signal = definition.cancelable ? AbortSignal.any([parts.signal, this.#stop.signal]) : parts.signal
  }

  /**
   * Ends what runs and has it undone; durable when this returns.
   * @returns false: it cannot be, or is being undone already
   */
  cancel(): boolean {
    if (!this.definition.cancelable || this.#undoing || this.parts.signal.aborted) return false
    const written = this.#written(this.#index, `undo ${this.#step(this.#index).name}`)
    this.parts.store.beginUndo(this.#id, written, canceled)
    this.#undoing = true
    this.#stop.abort(new BerthError('conflict', canceled.code, canceled.message))
    return true
  }

  /** @throws {Interrupted} when the agent shuts down first */
  async run(): Promise<OperationOutcome> {
    const { record, step, undoing } = this.operation
    if (undoing) {
      const error = { code: record.errorCode, message: record.error }
      return this.#undo(this.#known ? step : this.#steps.length - 1, error, true)
    }
    const resumed = record.status === 'running'
    // Steps may be repeated, so an operation journaled by a version with other steps begins at the first.
    const first = resumed && this.#known ? step : 0
    for (let index = first; index < this.#steps.length; index++) {
      this.#index = index
      const error = await this.#runStep(index, resumed && index <= Math.max(first, step))
      if (this.#undoing) return this.#undo(index, canceled, false)
      if (error) return this.#undo(index, error, false)
    }
    this.#undoing = true // too late to be canceled
    return { status: 'done' }
  }

  /** @returns why it failed; never for a forward-only operation */
  async #runStep(index: number, repeated: boolean): Promise<OperationError | undefined> {
    const step = this.#step(index)
    this.#progress = planProgress(this.#weights, index, 0)
    await this.#journal(() => this.#beginStep(index))
    for (let attempt = 1; ; attempt++) {
      const error = await this.#attempt({ phase: 'run', index, repeated: repeated || attempt > 1 })
      if (!error || !this.definition.forwardOnly) return error
      const stage = `${step.name}: failed, tried again`
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

  /** Begins with the failed step, which may be half done. */
  async #undo(from: number, error: OperationError, repeated: boolean): Promise<OperationOutcome> {
    this.#undoing = true
    for (let index = from; index >= 0; index--) {
      const step = this.#step(index)
      if (!step.undo) continue
      const written = this.#written(index, `undo ${step.name}`)
      await this.#journal(() => this.parts.store.beginUndo(this.#id, written, error))
      const failure = await this.#undoStep(index, repeated && index === from)
      // A step that could not be undone may use what earlier steps made: leave that.
      if (failure) return failed({ ...error, message: recordedUndoFailure(error, failure, step.name) }, false)
    }
    return error.code === canceled.code ? { status: 'canceled' } : failed(error, true)
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
    const stage = phase === 'run' ? step.name : `undo ${step.name}`
    const reporter = new ProgressReporter((r) => this.#report(r.progress, r.stage), {
      progress: this.#progress,
      stage,
    })
    try {
      await this.#observe(step, `before-${phase}`)
      await step[phase]?.(this.#context(attempt, reporter))
      await this.#observe(step, `after-${phase}`)
      return undefined
    } catch (err) {
      if (this.parts.signal.aborted) throw new Interrupted()
      if (!this.#stop.signal.aborted) this.parts.log.warn({ err, step: step.name, phase }, 'step failed')
      return recordedError(err)
    } finally {
      reporter.close()
    }
  }

  #context({ phase, index, repeated }: Attempt, reporter: ProgressReporter): StepContext<unknown> {
    const { log, yieldWhile } = this.parts
    const signal = phase === 'run' ? this.#signal : this.parts.signal
    return {
      operationId: this.#id,
      subject: this.operation.record.subject,
      input: this.operation.input,
      repeated,
      signal,
      log,
      yieldWhile,
      report: (fraction, stage) => {
        if (phase === 'run') this.#progress = planProgress(this.#weights, index, fraction)
        reporter.report(this.#progress, stage)
      },
    }
  }

  /** Progress is only informative: failing to write it fails nothing. */
  #report(progress: number, stage: string): void {
    try {
      this.parts.store.report(this.#id, progress, stage)
    } catch (err) {
      this.parts.log.warn({ err }, 'write progress')
    }
  }

  /** Writes, unless the agent is shutting down: then no step begins. */
  async #journal(write: () => void): Promise<void> {
    if (this.parts.signal.aborted) throw new Interrupted()
    await this.parts.persist(write)
  }

  async #observe(step: Step<unknown>, phase: Parameters<StepObserver>[0]['phase']): Promise<void> {
    const { action } = this.definition
    await this.parts.observer?.({ operationId: this.#id, action, step: step.name, phase })
  }

  #written(step: number, stage: string): StepWrite {
    const stepName = this.#step(step).name
    return { step, stepName, stage, progress: this.#progress, nowMs: this.parts.clock.now() }
  }

  #step(index: number): Step<unknown> {
    const step = this.#steps[index]
    if (!step) throw new RangeError(`${this.definition.action} has no step ${index}`)
    return step
  }
}

function failed({ code, message }: OperationError, undone: boolean): OperationOutcome {
  return { status: 'failed', code, message, undone }
}
