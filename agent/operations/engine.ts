import { setMaxListeners } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { KeyedDeferred } from '../../shared/async/keyed-deferred.js'
import { BerthError, conflict } from '../../shared/errors.js'
import { commitEnd, type OperationEnding } from './ending.js'
import { hashRequest } from './request-hash.js'
import { defaultRetry, Interrupted, systemClock } from './retry.js'
import { OperationRunner } from './runner.js'
import { Scheduler, type Task } from './scheduler.js'
import { OperationStore, type OperationError } from './operation-store.js'
import { repeated, type EngineOptions, type EngineStats, type Submission } from './submission.js'
import type { Clock, OperationDefinition, OperationRecord, SubjectRef } from './types.js'

const dayMs = 86_400_000
const prunedAtOnce = 200

/**
 * Runs the operations of the journal. Executes each operation's steps in order, undoes them on failure, and resumes
 * after a crash.
 */
export class OperationEngine {
  readonly store: OperationStore
  readonly #definitions: ReadonlyMap<string, OperationDefinition<unknown, string>>
  readonly #scheduler: Scheduler
  readonly #runner: OperationRunner
  readonly #clock: Clock
  readonly #shutdown = new AbortController()
  /** Pending and running operations, by id. */
  readonly #open = new Map<string, Task>()
  readonly #waiters = new KeyedDeferred<OperationRecord>()
  readonly #counts = { done: 0, failed: 0, canceled: 0 }
  #recovered = false

  constructor(private readonly options: EngineOptions) {
    this.store = new OperationStore(options.changes)
    this.#definitions = new Map(options.definitions.map((definition) => [definition.action, definition]))
    this.#scheduler = new Scheduler(options.parallel, (task) => this.#run(task))
    this.#clock = options.clock ?? systemClock
    this.#runner = this.#createRunner()
    setMaxListeners(0, this.#shutdown.signal) // listeners are unlimited, because each running step can add one
  }

  /**
   * Continues unfinished operations. Operations that had begun come first, and resume at the interrupted step or undo.
   * Pending operations follow in the order of submission. Call this one time, before the first `submit`.
   */
  recover(): { resumed: number; pending: number } {
    if (this.#recovered) throw new Error('recover() was called twice')
    this.#recovered = true
    const open = this.store.listOpen()
    for (const { id, action, subject, status } of open)
      this.#add({ id, subject, forwardOnly: this.#forwardOnly(action), begun: status === 'running' })
    const resumed = open.filter(({ status }) => status === 'running').length
    if (open.length > 0) this.options.log.info({ resumed, total: open.length }, 'operations recovered')
    return { resumed, pending: open.length - resumed }
  }

  /**
   * Writes an operation to the journal and queues it. When this method returns, the operation survives a power loss. A
   * repeated id with the same request returns the recorded operation, whatever its outcome. The same applies to a
   * removed operation, until `forgetRemoved` forgets it.
   * @throws {BerthError} `operation_conflict` if the id belongs to another request; `host_offline` before `recover` and
   * after `close`; the errors of `reserve`
   */
  submit(order: Submission): OperationRecord {
    this.#refuseUnlessOpen()
    const requestHash = hashRequest(order.action, order.subject, order.hashOf ?? order.input)
    const known = this.store.findSubmitted(order.id, this.#clock.now())
    if (known) return repeated(known, requestHash)
    const forwardOnly = this.#definitions.get(order.action)?.forwardOnly ?? false
    const { record, superseded } = this.#journal(order, requestHash, forwardOnly)
    for (const task of superseded) this.#drop(task)
    this.#add({ id: order.id, subject: order.subject, forwardOnly, begun: false })
    return record
  }

  /** @throws {BerthError} `not_found` */
  get(id: string): OperationRecord {
    return this.store.get(id)
  }

  /**
   * Cancels a pending operation, or stops and undoes a running one if its present step is `cancelable`.
   * @throws {BerthError} `not_found`; `task_running` if the step is not cancelable; `invalid_state` after the end
   */
  cancel(id: string): OperationRecord {
    const task = this.#open.get(id)
    if (!task) {
      const { status } = this.store.get(id)
      throw conflict('invalid_state', `the task has already ended: ${status}`)
    }
    if (task.begun) return this.#cancelRunning(id)
    this.#commitCancel(id)
    this.#drop(task)
    return this.store.get(id)
  }

  /**
   * Removes an ended operation. Its id stays known, so that a repeated request does not run again.
   * @throws {BerthError} `not_found`; `task_running` if it is running; `invalid_state` if it is pending
   */
  remove(id: string): void {
    const { status } = this.store.get(id)
    if (status === 'running') throw conflict('task_running', 'the task is running')
    if (status === 'pending') throw conflict('invalid_state', 'the task is not finished: cancel it first')
    this.store.remove(id, this.#clock.now())
  }

  /**
   * Removes operations that ended more than `keepDays` days ago. If more than `keep` ended operations are left, removes
   * the surplus, too. Works in batches, so that other work can run between them.
   * @returns number of removed operations
   */
  async prune(keepDays: number, keep = Infinity): Promise<number> {
    const nowMs = this.#clock.now()
    const aged = await this.#prune({ endedBeforeMs: nowMs - keepDays * dayMs, nowMs }, Infinity)
    return aged + (await this.#prune({ endedBeforeMs: Infinity, nowMs }, this.store.countEnded() - keep))
  }

  async #prune(ended: { endedBeforeMs: number; nowMs: number }, most: number): Promise<number> {
    for (let total = 0; ;) {
      const limit = Math.min(prunedAtOnce, most - total)
      const removed = this.#shutdown.signal.aborted || limit <= 0 ? 0 : this.store.prune({ ...ended, limit })
      total += removed
      if (removed < prunedAtOnce) return total
      await nextTurn()
    }
  }

  /**
   * Forgets operations that were removed more than `days` days ago, and the oldest ones if more than `keep` are left.
   * If the request of a forgotten operation is repeated, a new operation runs.
   * @returns number of forgotten operations
   */
  forgetRemoved(days: number, keep = Infinity): number {
    return this.store.removed.forget(this.#clock.now() - days * dayMs, keep)
  }

  /**
   * Waits until the operation has ended.
   * @throws {BerthError} `not_found`; `host_offline` if the engine closes first
   */
  async wait(id: string): Promise<OperationRecord> {
    const record = this.store.get(id)
    return this.#open.has(id) ? this.#waiters.wait(id) : record
  }

  /** True if an operation of the subject is pending or running. */
  busy(subject: SubjectRef): boolean {
    return this.#scheduler.busy(subject)
  }

  /** Returns the ids of the subject's unfinished operations, in the order in which they run. */
  openOperations(subject: SubjectRef): string[] {
    return this.#scheduler.tasks(subject).map(({ id }) => id)
  }

  /** True if an operation that is never undone, such as a deletion, is pending or running for the subject. */
  leaving(subject: SubjectRef): boolean {
    return this.#scheduler.tasks(subject).some((task) => task.forwardOnly)
  }

  /** True if a pending or running operation of the subject is exclusive: users' requests are refused until it ends. */
  isExclusive(subject: SubjectRef): boolean {
    const actions = this.openOperations(subject).map((id) => this.store.get(id).action)
    return actions.some((action) => this.#definitions.get(action)?.exclusive)
  }

  stats(): EngineStats {
    return { running: this.#scheduler.running, pending: this.#scheduler.waiting, ...this.#counts }
  }

  /**
   * Aborts running steps and waits until they stop. Their operations stay recorded as running. The agent's next start
   * continues these operations.
   * @param timeoutMs maximum waiting time in ms
   * @returns true if all steps stopped in time
   */
  async close(timeoutMs = 10_000): Promise<boolean> {
    this.#shutdown.abort()
    const given = new AbortController()
    const stopped = this.#scheduler.close().then(() => true)
    const late = systemClock.sleep(timeoutMs, given.signal).then(
      () => false,
      () => true,
    )
    const inTime = await Promise.race([stopped, late])
    given.abort()
    this.#waiters.rejectAll(offline())
    return inTime
  }

  #createRunner(): OperationRunner {
    return new OperationRunner({
      store: this.store,
      definitions: this.#definitions,
      scheduler: this.#scheduler,
      clock: this.#clock,
      retry: this.options.retry ?? defaultRetry,
      signal: this.#shutdown.signal,
      observer: this.options.observer,
      log: this.options.log,
    })
  }

  #cancelRunning(id: string): OperationRecord {
    if (!this.#runner.cancel(id)) throw conflict('task_running', 'the task is running and cannot be canceled now')
    return this.store.get(id)
  }

  #journal(order: Submission, requestHash: string, forwardOnly: boolean) {
    const { changes } = this.options
    if (!this.#definitions.has(order.action))
      throw new Error(`this version of the agent does not know the operation ${order.action}`)
    // The operation is queued after this commit. A rollback of an outer transaction would leave it in the queue.
    if (changes.db.inTransaction) throw new Error('submit() was called inside a transaction')
    return changes.transaction(() => {
      order.reserve?.()
      const superseded = forwardOnly ? this.#supersede(order.subject) : []
      const record = this.store.insert({ ...order, requestHash, createdAtMs: this.#clock.now() })
      return { record, superseded }
    })
  }

  /** Cancels pending operations of a subject that is about to be deleted. */
  #supersede(subject: SubjectRef): Task[] {
    const tasks = this.#scheduler.tasks(subject).filter((task) => !task.begun && !task.forwardOnly)
    for (const { id } of tasks)
      this.#commitCancel(id, { code: 'superseded', message: 'the container is being deleted' })
    return tasks
  }

  #commitCancel(id: string, reason?: OperationError): void {
    const operation = this.store.findJournaled(id)
    if (!operation) return
    const definition = this.#definitions.get(operation.record.action)
    const ending: OperationEnding = { definition, operation, outcome: { status: 'canceled' } }
    commitEnd(this.store, this.#clock, reason ? { ...ending, reason } : ending)
  }

  #add(task: Task): void {
    this.#open.set(task.id, task)
    this.#scheduler.add(task)
  }

  #drop(task: Task): void {
    this.#scheduler.drop(task)
    this.#ended(this.store.get(task.id))
  }

  /** Runs the task to its end. The promise never rejects. */
  async #run(task: Task): Promise<void> {
    try {
      this.#ended(await this.#runner.run(task))
    } catch (err) {
      if (!(err instanceof Interrupted)) this.#abandon(task, err)
    }
  }

  /**
   * Stops handling an operation whose end cannot be written to the journal. Waiting callers get the error. After its
   * next start, the agent continues the operation.
   */
  #abandon(task: Task, err: unknown): void {
    this.options.log.error(
      { err, operation: task.id },
      'the end of an operation could not be written to the database; the agent continues the operation after a restart',
    )
    this.#open.delete(task.id)
    this.#waiters.reject(task.id, err instanceof Error ? err : new Error(String(err)))
  }

  #ended(record: OperationRecord): void {
    this.#open.delete(record.id)
    this.#count(record)
    this.#waiters.resolve(record.id, record)
  }

  #count({ id, action, subject, status, startedAtMs, finishedAtMs, error }: OperationRecord): void {
    if (status === 'done' || status === 'failed' || status === 'canceled') this.#counts[status] += 1
    const line = { operation: id, action, [subject.kind]: subject.id, tookMs: finishedAtMs - startedAtMs }
    if (status === 'failed') this.options.log.warn({ ...line, reason: error }, 'operation failed')
    else this.options.log.info(line, `operation ${status}`)
  }

  #forwardOnly(action: string): boolean {
    return this.#definitions.get(action)?.forwardOnly ?? false
  }

  #refuseUnlessOpen(): void {
    if (!this.#recovered || this.#shutdown.signal.aborted) throw offline()
  }
}

function offline(): BerthError {
  return new BerthError('unavailable', 'host_offline', 'the agent is starting or stopping: try again later')
}
