import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { describeError } from './errors.js'

/** Temporary conditions that need no change of configuration: a full disk, too many open files, no memory. */
const temporaryCodes = /^(ENOSPC|EDQUOT|EMFILE|ENFILE|ENOMEM|EAGAIN|SQLITE_FULL|SQLITE_IOERR.*|SQLITE_CANTOPEN)$/
const retryMs = 2000

/** True if the error or one of its causes is a temporary condition. */
export function isTemporary(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as NodeJS.ErrnoException
  return (typeof code === 'string' && temporaryCodes.test(code)) || isTemporary(error.cause)
}

/**
 * Starts a program and retries while a temporary condition prevents the start, since not every machine has a service
 * manager that retries.
 * @throws what `start` throws for any other reason
 */
export async function startWhenPossible<T>(
  start: () => Promise<T>,
  log: Pick<Logger, 'error'>,
  pauseMs = retryMs,
): Promise<T> {
  for (;;) {
    try {
      return await start()
    } catch (error) {
      if (!isTemporary(error)) throw error
      log.error({ why: describeError(error) }, 'cannot start yet; trying again')
      await delay(pauseMs)
    }
  }
}
