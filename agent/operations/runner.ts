import type { Logger } from 'pino'
import { notFound } from '../../shared/errors.js'
import { brokenOperation, commitEndAnyway, unknownAction, unreadableInput } from './ending.js'
import { Execution } from './execution.js'
import type { JournaledOperation, OperationStore } from './operation-store.js'
import { Interrupted, isStorageFault, planBackoffMs } from './retry.js'
import type { Scheduler, Task } from './scheduler.js'
import type {
  Clock,
  OperationDefinition,
  OperationOutcome,
  OperationRecord,
  RetryPolicy,
  StepObserver,
} from './types.js'

export interface RunnerParts {
  readonly store: OperationStore
  readonly definitions: ReadonlyMap<string, OperationDefinition<unknown, string>>
  readonly scheduler: Scheduler
  readonly clock: Clock
  readonly retry: RetryPolicy
  readonly signal: AbortSignal
  readonly observer: StepObserver | undefined
  readonly log: Logger
}

/** Runs operations from the journal. Each run lasts until the journal contains the operation's end. */
export class OperationRunner {
  readonly #executions = new Map<string, Execution>()

  constructor(private readonly parts: RunnerParts) {}

  /**
   * Runs the task's operation to its end. @returns the ended operation
   * @throws {Interrupted} if the agent stops; another error if the end cannot be written
   */
  async run(task: Task): Promise<OperationRecord> {
    const { store, definitions, clock } = this.parts
    const log = this.parts.log.child({ operation: task.id })
    const operation = await this.#persist(task, () => store.findJournaled(task.id))
    if (!operation) throw notFound('task')
    const definition = definitions.get(operation.record.action)
    const outcome = await this.#execute(task, operation, log)
    await this.#persist(task, () => commitEndAnyway(store, { clock, log }, { definition, operation, outcome }))
    return this.#persist(task, () => store.get(task.id))
  }

  /** Cancels a running operation. @returns false if it is not running, or its present step must not be stopped */
  cancel(id: string): boolean {
    return this.#executions.get(id)?.cancel() ?? false
  }

  async #execute(task: Task, operation: JournaledOperation, log: Logger): Promise<OperationOutcome> {
    const { store, definitions, clock, retry, signal, observer, scheduler } = this.parts
    const { action, subject } = operation.record
    const definition = definitions.get(action)
    if (!definition) return unknownAction(action)
    if (operation.unreadable !== undefined) return unreadableInput(operation, operation.unreadable)
    const parts = {
      store,
      clock,
      retry,
      signal,
      observer,
      log: log.child({ action, [subject.kind]: subject.id }),
      pause: (ms: number) => this.#pause(task, ms),
      yieldWhile: <T>(work: Promise<T>) => scheduler.pause(task, () => work),
      persist: <T>(write: () => T) => this.#persist(task, write),
    }
    const execution = new Execution(parts, definition, operation)
    this.#executions.set(task.id, execution)
    try {
      return await execution.run()
    } catch (err) {
      if (err instanceof Interrupted) throw err
      log.error({ err }, 'an operation failed unexpectedly')
      return brokenOperation(err)
    } finally {
      this.#executions.delete(task.id)
    }
  }

  /** Writes to the journal. While the disk is full or failing, the operation pauses and the write is retried. */
  async #persist<T>(task: Task, write: () => T): Promise<T> {
    const { signal, retry, log } = this.parts
    for (let attempt = 1; ; attempt++) {
      try {
        return write()
      } catch (err) {
        if (signal.aborted) throw new Interrupted()
        if (!isStorageFault(err)) throw err
        log.error(
          { err, operation: task.id },
          'could not write the progress of an operation to the database; trying again',
        )
        await this.#pause(task, planBackoffMs(retry, attempt))
      }
    }
  }

  async #pause(task: Task, ms: number): Promise<void> {
    const { scheduler, clock, signal } = this.parts
    // `sleep` rejects only if `signal` is aborted, which the next line handles.
    await scheduler.pause(task, () => clock.sleep(ms, signal).catch(() => undefined))
    if (signal.aborted) throw new Interrupted()
  }
}
