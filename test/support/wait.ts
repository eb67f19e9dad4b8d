import { setTimeout as delay } from 'node:timers/promises'
import { AssertionError } from 'chai'

/**
 * Time limit for everything that other work of the machine can delay: boots of emulated machines, guests, programs.
 * Mocha's own limit for a test (`.mocharc.json`) is longer, so that the error of the wait is reported.
 */
export const patienceMs = 600_000
const [shortestIntervalMs, longestIntervalMs] = [20, 500]

export interface WaitOptions {
  /** Time limit. Default: `patienceMs`. */
  timeoutMs?: number
  /** Interval between checks. Default: 5 % of the time waited so far, because frequent checks load the processor. */
  intervalMs?: number
  /** The expected condition, for the error message. */
  what?: string | (() => string)
}

/**
 * Resolves with the first truthy value of `check`. An error that `check` throws ends the wait.
 * @throws after the time limit
 */
export async function waitFor<T>(check: () => T | Promise<T>, options: WaitOptions = {}): Promise<NonNullable<T>> {
  const { timeoutMs = patienceMs } = options
  const began = performance.now()
  for (;;) {
    const value = await check()
    if (value) return value
    const waitedMs = performance.now() - began
    if (waitedMs > timeoutMs) {
      const what = typeof options.what === 'function' ? options.what() : (options.what ?? 'condition')
      throw new Error(`not within ${timeoutMs} ms: ${what}`)
    }
    await delay(options.intervalMs ?? usualIntervalMs(waitedMs))
  }
}

/**
 * Repeats assertions until they pass, for states that an action causes a moment later. Any other error ends the wait.
 * @throws the last failed assertion after the time limit
 */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = patienceMs): Promise<T> {
  const began = performance.now()
  for (;;) {
    const waitedMs = performance.now() - began
    try {
      return await check()
    } catch (error) {
      if (!(error instanceof AssertionError) || waitedMs > timeoutMs) throw error
    }
    await delay(usualIntervalMs(waitedMs))
  }
}

function usualIntervalMs(waitedMs: number): number {
  return Math.min(Math.max(waitedMs / 20, shortestIntervalMs), longestIntervalMs)
}
