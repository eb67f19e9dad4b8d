import { setTimeout as delay } from 'node:timers/promises'
import { isTemporary } from '../http/errors.js'
import { planPoll } from './plan-poll.js'

export interface PollOptions<T> {
  readonly read: () => Promise<T>
  isEnded(state: T): boolean
  /** Called with each state that is not final. */
  show(state: T): void
  /** Longest time in ms to wait; Infinity: no limit. */
  readonly timeoutMs: number
  /** Returns the error to throw if the time is over. */
  timedOut(): Error
  readonly signal?: AbortSignal | undefined
}

/** Longest time in ms for which temporary errors are ignored, for example while the gateway restarts. */
const graceMs = 60_000

/** Reads a state until it is final. @throws the error of `read`; a temporary error is thrown after `graceMs` */
export async function pollUntilEnd<T>(options: PollOptions<T>): Promise<T> {
  const { timeoutMs, signal } = options
  const endMs = performance.now() + timeoutMs
  let lostSinceMs: number | undefined
  for (let poll = 0; ; poll++) {
    const result = await readOnce(options)
    if ('state' in result) {
      lostSinceMs = undefined
      if (options.isEnded(result.state)) return result.state
      options.show(result.state)
    } else {
      lostSinceMs ??= performance.now()
      if (performance.now() - lostSinceMs > graceMs) throw result.error
    }
    const leftMs = endMs - performance.now()
    if (leftMs <= 0) throw options.timedOut()
    await delay(Math.min(planPoll(poll), leftMs), undefined, signal && { signal })
  }
}

/** Returns the state, or the error if it is temporary. */
async function readOnce<T>({ read }: PollOptions<T>): Promise<{ state: T } | { error: unknown }> {
  try {
    return { state: await read() }
  } catch (error) {
    if (isTemporary(error)) return { error }
    throw error
  }
}
