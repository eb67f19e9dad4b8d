import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '../client/client.js'
import { CliError, exitCodes, RefusedError } from '../errors.js'
import { planPoll, progressLine, type Task } from './plan-follow.js'

export interface FollowOptions {
  /** Longest time to wait; undefined: no limit. */
  readonly timeoutMs: number | undefined
  nowMs(): number
  /** Shows the progress of a task; undefined removes it. */
  showProgress(line: string | undefined): void
  /** Reports the end of a task. */
  report(line: string): void
}

/** Longest time during which the gateway may be unreachable, for example while it restarts. */
const graceMs = 60_000

/**
 * Waits for tasks one after another and reports each end.
 * @throws {CliError} failed if a task failed, unreachable if the time is over or the gateway does not answer
 */
export async function followTasks(client: Client, ids: readonly string[], options: FollowOptions): Promise<void> {
  const endMs = options.timeoutMs === undefined ? Infinity : options.nowMs() + options.timeoutMs
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

async function followTask(client: Client, id: string, endMs: number, options: FollowOptions): Promise<Task> {
  let lostSinceMs: number | undefined
  for (let poll = 0; ; poll++) {
    const answer = await readTask(client, id)
    if (answer instanceof CliError) {
      lostSinceMs ??= options.nowMs()
      if (options.nowMs() - lostSinceMs > graceMs) throw answer
    } else {
      lostSinceMs = undefined
      if (answer.finished_at !== '' && !/^(pending|running)$/.test(answer.status)) return answer
      options.showProgress(progressLine(answer))
    }
    const leftMs = endMs - options.nowMs()
    if (leftMs <= 0) throw timedOut(id)
    await delay(Math.min(planPoll(poll), leftMs))
  }
}

/** Returns the task, or the error if the gateway is only unreachable for the moment. */
async function readTask(client: Client, id: string): Promise<Task | CliError> {
  try {
    const { body } = await client.send({ method: 'GET', path: `/tasks/${encodeURIComponent(id)}` })
    return body.data as Task
  } catch (cause) {
    const isTemporary = cause instanceof CliError && cause.exitCode === exitCodes.unreachable
    if (isTemporary || (cause instanceof RefusedError && cause.status >= 500)) return cause
    throw cause
  }
}

const timedOut = (id: string): CliError =>
  new CliError(exitCodes.unreachable, `task ${id} did not end in time`, followHint(id))

/** Says how to follow or cancel a task that continues without this program. */
export const followHint = (id: string): string =>
  `the task continues; follow it with: berth task get ${id}; cancel it with: berth task delete ${id}`
