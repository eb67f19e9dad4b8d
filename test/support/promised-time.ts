import { expect } from 'chai'

/** A slow machine that runs other tests meanwhile may take this many times what is promised. */
const slowness = 5

/**
 * The deadline of what is promised within `promisedMs`. A test shows that it happens at all, and by itself; how long it
 * takes scripts/bench measures, on a machine that does nothing else.
 */
export const deadlineOf = (promisedMs: number): number => slowness * promisedMs

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
