import type { Logger } from 'pino'
import { Coalescer } from './coalescer.js'

/** By name, for the log. */
export type PeriodicTaskTable = Readonly<Record<string, () => Promise<unknown>>>

/** Runs tasks one after another, at an interval and on request. A failed task is logged; the next round tries it again. */
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

  /** Resolves after a round that begins after this call. Never rejects. */
  run(): Promise<void> {
    return this.#rounds.run()
  }

  /** Resolves after the round in progress. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#rounds.settled()
  }

  async #runAll(): Promise<void> {
    for (const [task, run] of Object.entries(this.tasks)) {
      try {
        await run()
      } catch (err) {
        this.log.error({ err, task }, 'periodic task failed')
      }
    }
  }
}
