import { setImmediate as nextTurn } from 'node:timers/promises'
import { Semaphore } from '../../../shared/async/semaphore.js'
import type { StepContext } from '../../operations/types.js'

/** A start looks so many times for guests that are being made: those ordered ever since do not hold it up for ever. */
const mostLooks = 20
/** Guests that start at once. */
const mostStarts = 16

/**
 * Of guests that are created at once all disks are made before the first boots: one that boots takes processors and
 * disk from those that are still being made (docs/design/operations.md). Kept in memory alone: after a restart each creation
 * goes on at its step, and comes by here again.
 */
export class DisksFirst {
  readonly #inWork = new Set<Promise<unknown>>()
  readonly #starts = new Semaphore(mostStarts)

  /** Runs what makes a guest; whether it fails or not, starts wait for its end. */
  async prepare(make: () => Promise<void>): Promise<void> {
    const work = make()
    this.#inWork.add(work)
    try {
      await work
    } finally {
      this.#inWork.delete(work)
    }
  }

  /** Starts a guest once none is being made, without one of the places for operations that run. */
  async start(
    { signal, yieldWhile }: Pick<StepContext<unknown>, 'signal' | 'yieldWhile'>,
    boot: () => Promise<void>,
  ): Promise<void> {
    for (let look = 0; look < mostLooks; look++) {
      await yieldWhile(Promise.allSettled(this.#inWork)) // comes back at the queue's end, behind all that were ordered
      await nextTurn() // one that has just got its place, or is between two steps, is seen then
      if (this.#inWork.size === 0) break
    }
    await yieldWhile(this.#starts.run(boot, signal))
  }
}
