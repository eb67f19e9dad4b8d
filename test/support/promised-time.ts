import { expect } from 'chai'

/** A machine with other work may take this many times the promised time, and at least `leastMs`. */
const slowness = 10
/** Shorter than the product's own timeouts, which tests distinguish from an answer. */
const leastMs = 45_000

/**
 * The deadline for a promise of `promisedMs`. A test shows that the event happens at all, and automatically;
 * scripts/bench measures the time on a machine without other work.
 */
export const deadlineOf = (promisedMs: number): number => Math.max(leastMs, slowness * promisedMs)

/** Fails when the deadline of `promisedMs` has passed since `startedMs` (of performance.now()). */
export function expectInTime(startedMs: number, promisedMs: number, what: string): void {
  const told = `ms until ${what}, of which ${promisedMs} are promised on an idle machine`
  expect(performance.now() - startedMs, told).to.be.below(deadlineOf(promisedMs))
}

/**
 * The shortest time of several runs, ms: for work that must wait for nothing. A machine that stalls occasionally does
 * so in only some of them.
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
