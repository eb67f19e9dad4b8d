import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { describeError } from '../../shared/errors.js'
import { Lease } from './lease.js'
import type { Store } from './store.js'

export interface LeasedWorkerOptions {
  readonly store: Store
  readonly log: Logger
  /** Time in ms after which another gateway takes over the work of a gateway that died. Default: 10 s. */
  readonly leaseMs?: number | undefined
  /** Interval in ms of the rounds. Default: 1 s. */
  readonly everyMs?: number | undefined
}

/** Repeats work at an interval, one round at a time. The work takes the lease when it finds something to do. */
export class LeasedWorker {
  readonly lease: Lease
  readonly #rounds = new SingleFlight()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /**
   * @param name name of the lease
   * @param task completes the sentence "could not …" in the log
   */
  constructor(
    private readonly options: LeasedWorkerOptions,
    name: string,
    private readonly task: string,
  ) {
    this.lease = new Lease(options.store, name, options.leaseMs ?? 10_000)
  }

  /** True after `close` was called. Work in progress must then end soon. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** @param work one round. If it fails, the next round tries again */
  start(work: () => Promise<void>): void {
    const round = (): void => void this.#rounds.run(() => this.#try(work))
    this.#timer = setInterval(round, this.options.everyMs ?? 1000)
  }

  async #try(work: () => Promise<void>): Promise<void> {
    if (this.#isClosed) return
    await work().catch((error: unknown) => this.logFailure(error))
  }

  logFailure(error: unknown): void {
    this.options.log.debug({ reason: describeError(error) }, `could not ${this.task}; trying again later`)
  }

  /** Ends the rounds, and then releases the lease. @param settled resolves when other work with the lease has ended */
  async close(settled: () => Promise<unknown> = async () => undefined): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#rounds.settled()
    await settled()
    await this.lease.release().catch(() => undefined) // if this fails, the lease expires
  }
}
