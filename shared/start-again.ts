import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { describeError } from './errors.js'

/** Codes of errors that can disappear by themselves: a full disk, no memory, a host that has not joined yet. */
const temporaryCodes =
  /^(not_joined|ENOSPC|EDQUOT|EMFILE|ENFILE|ENOMEM|EAGAIN|SQLITE_FULL|SQLITE_IOERR.*|SQLITE_CANTOPEN)$/
const retryMs = 2000

/** True if the error, or one of its causes, is temporary. */
export function isTemporary(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as NodeJS.ErrnoException
  return (typeof code === 'string' && temporaryCodes.test(code)) || isTemporary(error.cause)
}

/**
 * Starts a program. Retries while a temporary condition prevents the start, because not every host has a service
 * manager that restarts programs.
 * @throws the error of `start` if it is not temporary
 */
export async function startWhenPossible<T>(
  start: () => Promise<T>,
  log: Pick<Logger, 'error'>,
  pauseMs = retryMs,
): Promise<T> {
  let shown = ''
  for (;;) {
    try {
      return await start()
    } catch (error) {
      if (!isTemporary(error)) throw error
      const why = describeError(error)
      if (why !== shown) log.error({ why }, 'the program cannot start yet; trying again')
      shown = why
      await delay(pauseMs)
    }
  }
}
