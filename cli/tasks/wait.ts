import type { Client } from '../client/client.js'
import { CliError, exitCodes } from '../errors.js'
import { cutTo, printable } from '../output/width.js'
import type { Surroundings } from '../surroundings.js'
import { followHint, followTasks } from './follow.js'

/* Waits for tasks with a line of progress. Ctrl-C ends only the waiting. */

export interface WaitOptions {
  readonly timeoutMs: number | undefined
  readonly surroundings: Surroundings
  readonly isQuiet: boolean
}

const clearLine = '\r\u001b[K'

/** @throws {CliError} as `followTasks`, and if the user interrupts it */
export async function waitForTasks(client: Client, ids: readonly string[], options: WaitOptions): Promise<void> {
  const { surroundings, isQuiet, timeoutMs } = options
  const showProgress = (line: string | undefined): void => {
    if (!surroundings.hasProgress || isQuiet) return
    surroundings.writeError(clearLine + cutTo(printable(line ?? ''), surroundings.width ?? 78))
  }
  const report = (line: string): void => {
    if (!isQuiet) surroundings.writeError(`${printable(line)}\n`)
  }
  const interruption = interrupted(ids)
  try {
    const nowMs = (): number => surroundings.nowMs()
    await Promise.race([followTasks(client, ids, { timeoutMs, nowMs, showProgress, report }), interruption.signaled])
  } finally {
    interruption.release()
    showProgress(undefined)
  }
}

function interrupted(ids: readonly string[]): { signaled: Promise<never>; release: () => void } {
  let release = (): void => undefined
  const signaled = new Promise<never>((_, reject) => {
    const stop = (): void =>
      reject(new CliError(exitCodes.interrupted, 'no longer waiting', ids.map(followHint).join('\n')))
    process.once('SIGINT', stop)
    release = (): void => void process.off('SIGINT', stop)
  })
  return { signaled, release }
}
