import type { components } from '../schema.gen.js'

export type Task = components['schemas']['Task']

/** A task failed or was canceled. */
export class TaskFailedError extends Error {
  override readonly name: string = 'TaskFailedError'

  constructor(readonly task: Task) {
    super(failureOf(task))
  }
}

export const isTaskEnded = ({ finished_at: end, status }: Task): boolean =>
  end !== '' && !/^(pending|running)$/.test(status)

/** Returns the action and the object of a task, such as `create web1`. */
export const nameOfTask = ({ action, container_name, image_id }: Task): string =>
  [action, container_name || image_id].filter(Boolean).join(' ')

function failureOf(task: Task): string {
  if (task.status === 'canceled') return `task ${task.task_id} was canceled: ${nameOfTask(task)}`
  return `${nameOfTask(task)} failed: ${task.error || 'no reason is known'} (${task.error_code || 'task_failed'})`
}
