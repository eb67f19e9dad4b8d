import { setTimeout as delay } from 'node:timers/promises'

const defaultTimeoutMs = 120_000

export interface WaitOptions {
  /** Default 120 s: most conditions hold within a moment, but a machine with other work may stall for long. */
  timeoutMs?: number
  /** Default 20 ms. */
  intervalMs?: number
  /** The expected condition, for the failure's message. */
  what?: string | (() => string)
}

/**
 * Resolves with the first truthy value of `check`, which may throw to end the wait.
 * @throws after the deadline
 */
export async function waitFor<T>(check: () => T | Promise<T>, options: WaitOptions = {}): Promise<NonNullable<T>> {
  const { timeoutMs = defaultTimeoutMs } = options
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await check()
    if (value) return value
    if (performance.now() > deadline) {
      const what = typeof options.what === 'function' ? options.what() : (options.what ?? 'condition')
      throw new Error(`not within ${timeoutMs} ms: ${what}`)
    }
    await delay(options.intervalMs ?? 20)
  }
}
