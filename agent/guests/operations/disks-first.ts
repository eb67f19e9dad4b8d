import { setImmediate as nextTurn } from 'node:timers/promises'
import { Semaphore } from '../../../shared/async/semaphore.js'
import type { StepContext } from '../../operations/types.js'

/**
 * Maximum number of times that a start waits for guests that are being created. Otherwise a continuous series of
 * creations could delay the start forever.
 */
const mostLooks = 20
const mostStarts = 16

/**
 * Delays the start of new guests until the disks of all guests that are being created exist. A booting guest would slow
 * down the remaining creations (docs/design/operations.md). The state is only in memory, because each creation calls
 * `prepare` again after a restart of the agent.
 */
export class DisksFirst {
  readonly #inWork = new Set<Promise<unknown>>()
  readonly #starts = new Semaphore(mostStarts)

  /** Runs the creation of a guest. Starts of guests wait until the creation has ended, even if it fails. */
  async prepare(make: () => Promise<void>): Promise<void> {
    const work = make()
    this.#inWork.add(work)
    try {
      await work
    } finally {
      this.#inWork.delete(work)
    }
  }

  /** Starts a guest as soon as no creation is running. Until then, the start does not count as a running operation. */
  async start(
    { signal, yieldWhile }: Pick<StepContext<unknown>, 'signal' | 'yieldWhile'>,
    boot: () => Promise<void>,
  ): Promise<void> {
    for (let look = 0; look < mostLooks; look++) {
      await yieldWhile(Promise.allSettled(this.#inWork)) // during the wait, other operations can run
      await nextTurn() // creations that have just begun or ended a step call `prepare` in this turn of the event loop
      if (this.#inWork.size === 0) break
    }
    await yieldWhile(this.#starts.run(boot, signal))
  }
}
