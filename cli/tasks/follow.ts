import { nameOfTask, TaskFailedError, TimeoutError, type BerthClient, type Task } from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'

export interface FollowOptions {
  /** Longest time in ms to wait; undefined: no limit. */
  readonly timeoutMs: number | undefined
  nowMs(): number
  /** Shows the progress. Undefined: removes the shown progress. */
  showProgress(line: string | undefined): void
  /** Reports the end of a part of the work, such as a task. */
  report(line: string): void
}

/** Makes a function that returns the time in ms that is left for the wait. */
function remainingTime(options: FollowOptions): () => number {
  const endMs = options.nowMs() + (options.timeoutMs ?? Infinity)
  return () => Math.max(0, endMs - options.nowMs())
}

/**
 * Waits for tasks one after another and reports the end of each task.
 * @throws {CliError} `failed` if a task failed, `unreachable` if the time is over, and as `BerthClient.followTask`
 */
export async function followTasks(client: BerthClient, ids: readonly string[], options: FollowOptions): Promise<void> {
  const remainingMs = remainingTime(options)
  const failures: string[] = []
  for (const id of ids) {
    const onProgress = (task: Task): void => options.showProgress(progressLine(task))
    const task = await client.followTask(id, { onProgress, timeoutMs: remainingMs() }).catch((cause: unknown) => {
      throw cause instanceof TimeoutError ? new CliError(exitCodes.unreachable, cause.message, followHint(id)) : cause
    })
    options.showProgress(undefined)
    if (task.status === 'done') options.report(progressLine(task))
    else failures.push(new TaskFailedError(task).message)
  }
  if (failures.length > 0) throw new CliError(exitCodes.failed, failures.join('\n'))
}

function progressLine(task: Task): string {
  const { status, progress, stage } = task
  const state = status === 'running' ? [stage, `${progress} %`].filter(Boolean).join(', ') : status
  return `${nameOfTask(task)}: ${state}`
}

/** Returns a text that says how to follow or cancel a task that continues without this program. */
export const followHint = (id: string): string =>
  `the task continues; follow it with: berth task get ${id}; cancel it with: berth task delete ${id}`
