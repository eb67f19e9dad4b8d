import { setTimeout as delay } from 'node:timers/promises'
import { AssertionError } from 'chai'

const defaultTimeoutMs = 120_000
const eventuallyMs = 30_000
const [shortestIntervalMs, longestIntervalMs] = [20, 100]

export interface WaitOptions {
  /** Time limit. The default of 120 s allows for machines that stall because of other work. */
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
  const { timeoutMs = defaultTimeoutMs } = options
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
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = eventuallyMs): Promise<T> {
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
