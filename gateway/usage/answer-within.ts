import { setTimeout as sleep } from 'node:timers/promises'

/** Waits for the end of the work, at most `ms`. Work that takes longer continues. @param work must not reject */
export async function answerWithin(ms: number, work: Promise<unknown>): Promise<void> {
  const ended = new AbortController()
  const timeout = sleep(ms, undefined, { signal: ended.signal }).catch(() => undefined)
  await Promise.race([work.finally(() => ended.abort()), timeout])
}
