import { setTimeout as delay } from 'node:timers/promises'
import { BerthError } from '../../../shared/errors.js'

export interface WaitOptions {
  readonly timeoutMs: number
  /** Text that completes the error "timed out waiting for …". */
  readonly what: string
  readonly signal?: AbortSignal
}

const firstPauseMs = 2
const longestPauseMs = 25

/**
 * Waits until `isSo` returns true. Polls every 2 ms at first and every 25 ms later, because each call reads some files
 * in /proc.
 * @throws {BerthError} `host_timeout`, or the signal's reason
 */
export async function waitUntil(isSo: () => boolean | Promise<boolean>, options: WaitOptions): Promise<void> {
  if (!(await isSoWithin(isSo, options)))
    throw new BerthError('timeout', 'host_timeout', `timed out waiting for ${options.what}`)
}

/**
 * Waits until `count` returns 0. Gives up after `timeoutMs`, or if the count reached no new minimum for `stillMs`.
 * @throws {BerthError} `host_timeout`, or the signal's reason
 */
export async function waitUntilNone(
  count: () => number,
  { stillMs, ...options }: WaitOptions & { stillMs: number },
): Promise<void> {
  let [fewest, since] = [Infinity, performance.now()]
  let left = Infinity
  const isOver = (): boolean => {
    left = count()
    if (left < fewest) [fewest, since] = [left, performance.now()]
    return left === 0 || performance.now() - since > stillMs
  }
  await isSoWithin(isOver, options)
  if (left > 0) throw new BerthError('timeout', 'host_timeout', `timed out waiting for ${options.what}`)
}

/** Waits like {@link waitUntil}, but returns false on timeout. */
export async function isSoWithin(
  isSo: () => boolean | Promise<boolean>,
  options: Pick<WaitOptions, 'timeoutMs' | 'signal'>,
): Promise<boolean> {
  const deadline = performance.now() + options.timeoutMs
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 1.2)) {
    options.signal?.throwIfAborted()
    if (await isSo()) return true
    if (performance.now() >= deadline) return false
    await delay(pauseMs)
  }
}
