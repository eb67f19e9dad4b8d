import type { Logger } from 'pino'

/** Something that hosts should have, and that a look gives them where they have it not. */
export interface Kept {
  /** For the log. */
  readonly what: string
  readonly keep: () => Promise<void>
}

/** Has hosts know what was set of all of them, also those that were away or that join later. Safe in several gateways. */
export class Upkeep {
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> = Promise.resolve()
  #waiting: Promise<void> | undefined

  constructor(
    private readonly kept: readonly Kept[],
    private readonly log: Logger,
  ) {}

  start(everyMs: number): void {
    this.#timer = setInterval(() => void this.look(), everyMs).unref()
  }

  /** What is under way is waited for. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
  }

  /** Begins after this call, and is shared by all who ask before that. Failures are logged: the next look is soon. */
  look(): Promise<void> {
    this.#waiting ??= this.#looking.then(() => {
      this.#waiting = undefined
      return (this.#looking = this.#look())
    })
    return this.#waiting
  }

  async #look(): Promise<void> {
    for (const { what, keep } of this.kept)
      await keep().catch((err: unknown) => this.log.warn({ err }, `keep ${what}`))
  }
}
