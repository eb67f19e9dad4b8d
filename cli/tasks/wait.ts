import type { BerthClient } from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'
import { cutTo, printable } from '../output/width.js'
import type { Surroundings } from '../surroundings.js'
import { followHint, followTasks, type FollowOptions } from './follow.js'

/* This module waits for tasks and shows their progress. Ctrl-C ends only the wait; the tasks continue. */

export interface WaitOptions {
  readonly timeoutMs: number | undefined
  readonly surroundings: Surroundings
  readonly isQuiet: boolean
}

const clearLine = '\r\u001b[K'

/** @throws {CliError} as `followTasks`, and `interrupted` after Ctrl-C */
export async function waitForTasks(client: BerthClient, ids: readonly string[], options: WaitOptions): Promise<void> {
  await waitWithProgress(options, ids.map(followHint).join('\n'), (following) => followTasks(client, ids, following))
}

/**
 * Shows the progress of work on the gateway, such as a task or a drain, until the work has ended.
 * @param hint how to follow or cancel the work, printed after Ctrl-C
 * @throws {CliError} as `follow`, and `interrupted` after Ctrl-C
 */
export async function waitWithProgress(
  { surroundings, isQuiet, timeoutMs }: WaitOptions,
  hint: string,
  follow: (options: FollowOptions) => Promise<void>,
): Promise<void> {
  const showProgress = (line: string | undefined): void => {
    if (!surroundings.hasProgress || isQuiet) return
    surroundings.writeError(clearLine + cutTo(printable(line ?? ''), surroundings.width ?? 78))
  }
  const report = (line: string): void => {
    showProgress(undefined)
    if (!isQuiet) surroundings.writeError(`${printable(line)}\n`)
  }
  const interruption = interrupted(hint)
  try {
    const nowMs = (): number => surroundings.nowMs()
    await Promise.race([follow({ timeoutMs, nowMs, showProgress, report }), interruption.signaled])
  } finally {
    interruption.release()
    showProgress(undefined)
  }
}

function interrupted(hint: string): { signaled: Promise<never>; release: () => void } {
  let release = (): void => undefined
  const signaled = new Promise<never>((_, reject) => {
    const stop = (): void => reject(new CliError(exitCodes.interrupted, 'no longer waiting', hint))
    process.once('SIGINT', stop)
    release = (): void => void process.off('SIGINT', stop)
  })
  return { signaled, release }
}
