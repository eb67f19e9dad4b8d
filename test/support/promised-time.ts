import { expect } from 'chai'

/** A machine with other work may need this many times the promised time. */
const slowness = 10
/** Shortest deadline. All timeouts of the product are longer, so an event that waits for one misses the deadline. */
const leastMs = 45_000

/**
 * Returns the deadline for an event that the product promises within `promisedMs`. Tests only show that the event
 * happens; scripts/bench measures the time on an idle machine.
 */
export const deadlineOf = (promisedMs: number): number => Math.max(leastMs, slowness * promisedMs)

/** Fails if the deadline of `promisedMs` has passed since `startedMs` (a time of performance.now()). */
export function expectInTime(startedMs: number, promisedMs: number, what: string): void {
  const told = `ms until ${what}, of which ${promisedMs} are promised on an idle machine`
  expect(performance.now() - startedMs, told).to.be.below(deadlineOf(promisedMs))
}

/**
 * Returns the duration in ms of the quickest of several runs. It shows whether the work always waits for something. A
 * machine that stalls for a moment delays only some of the runs.
 */
export async function quickest(runs: number, run: () => Promise<unknown>): Promise<number> {
  let leastMs = Infinity
  for (let count = 0; count < runs; count++) {
    const startedMs = performance.now()
    await run()
    leastMs = Math.min(leastMs, performance.now() - startedMs)
  }
  return leastMs
}
