import { expect } from 'chai'

/** A machine that does other work may take this many times what is promised, and at least `leastMs`. */
const slowness = 10
/** Shorter than the product's own time limits, which tests tell from an answer. */
const leastMs = 45_000

/**
 * The deadline of what is promised within `promisedMs`. A test shows that it happens at all, and by itself; how long it
 * takes is measured by scripts/bench on a machine without other work.
 */
export const deadlineOf = (promisedMs: number): number => Math.max(leastMs, slowness * promisedMs)

/** Fails when the deadline of `promisedMs` has passed since `startedMs` (of performance.now()). */
export function expectInTime(startedMs: number, promisedMs: number, what: string): void {
  const told = `ms until ${what}, of which ${promisedMs} are promised on an idle machine`
  expect(performance.now() - startedMs, told).to.be.below(deadlineOf(promisedMs))
}

/**
 * The least time of several runs, ms: for what is to wait for nothing. A machine that stalls now and then does so in
 * some of them.
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
