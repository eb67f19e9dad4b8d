import type { Client } from '../client/client.js'
import { CliError, exitCodes } from '../errors.js'
import { progressLine, type Task } from './plan-follow.js'
import { pollUntilEnd } from './poll.js'

export interface FollowOptions {
  /** Longest time to wait; undefined: no limit. */
  readonly timeoutMs: number | undefined
  nowMs(): number
  /** Shows the progress; undefined removes it. */
  showProgress(line: string | undefined): void
  /** Reports the end of a part, such as a task. */
  report(line: string): void
}

/** Returns the time at which the waiting ends. */
export const endOf = (options: FollowOptions): number =>
  options.timeoutMs === undefined ? Infinity : options.nowMs() + options.timeoutMs

/**
 * Waits for tasks one after another and reports each end.
 * @throws {CliError} failed if a task failed, unreachable if the time is over or the gateway does not answer
 */
export async function followTasks(client: Client, ids: readonly string[], options: FollowOptions): Promise<void> {
  const endMs = endOf(options)
  const failures: string[] = []
  for (const id of ids) {
    const task = await followTask(client, id, endMs, options)
    options.showProgress(undefined)
    if (task.status === 'done') options.report(`${progressLine(task)}`)
    else failures.push(failureOf(task))
  }
  if (failures.length > 0) throw new CliError(exitCodes.failed, failures.join('\n'))
}

function failureOf(task: Task): string {
  if (task.status === 'canceled') return `task ${task.task_id} was canceled: ${nameOf(task)}`
  return `${nameOf(task)} failed: ${task.error || 'no reason is known'} (${task.error_code || 'task_failed'})`
}

const nameOf = ({ action, container_name, image_id }: Task): string =>
  [action, container_name || image_id].filter(Boolean).join(' ')

function followTask(client: Client, id: string, endMs: number, options: FollowOptions): Promise<Task> {
  return pollUntilEnd<Task>(client, {
    path: `/tasks/${encodeURIComponent(id)}`,
    isEnded: ({ finished_at: end, status }) => end !== '' && !/^(pending|running)$/.test(status),
    show: (task) => options.showProgress(progressLine(task)),
    endMs,
    nowMs: () => options.nowMs(),
    timedOut: () => timedOut(id),
  })
}

const timedOut = (id: string): CliError =>
  new CliError(exitCodes.unreachable, `task ${id} did not end in time`, followHint(id))

/** Returns a text that says how to follow or cancel a task that continues without this program. */
export const followHint = (id: string): string =>
  `the task continues; follow it with: berth task get ${id}; cancel it with: berth task delete ${id}`
