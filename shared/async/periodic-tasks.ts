import type { Logger } from 'pino'
import { Coalescer } from './coalescer.js'

/** Tasks by name. The log shows the name if a task fails. */
export type PeriodicTaskTable = Readonly<Record<string, () => Promise<unknown>>>

/** Runs tasks in order, at an interval and on request. A failed task is logged, and the next round runs it again. */
export class PeriodicTasks {
  #timer: NodeJS.Timeout | undefined
  readonly #rounds: Coalescer

  constructor(
    private readonly tasks: PeriodicTaskTable,
    private readonly log: Logger,
  ) {
    this.#rounds = new Coalescer(() => this.#runAll())
  }

  /** The first round begins after one interval. */
  start(intervalMs: number): void {
    this.#timer = setInterval(() => void this.run(), intervalMs).unref()
  }

  /** Runs all tasks in a round that begins after this call. Resolves when the round has ended. Never rejects. */
  run(): Promise<void> {
    return this.#rounds.run()
  }

  /** Stops the interval. Resolves after the round in progress. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#rounds.settled()
  }

  async #runAll(): Promise<void> {
    for (const [task, run] of Object.entries(this.tasks)) {
      try {
        await run()
      } catch (err) {
        this.log.error({ err, task }, 'a periodic task failed')
      }
    }
  }
}
