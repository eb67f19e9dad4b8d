/** The fields of a task that this program shows. */
export interface Task {
  readonly task_id: string
  readonly action: string
  readonly container_name: string
  readonly image_id: string
  readonly status: string
  readonly progress: number
  readonly stage: string
  readonly error: string
  readonly error_code: string
  readonly finished_at: string
}

const firstPollMs = 200
const slowestPollMs = 2000

/** Returns the time in ms until the state of a task is requested again. @param poll number of earlier requests */
export function planPoll(poll: number): number {
  return Math.min(slowestPollMs, firstPollMs * 1.3 ** poll)
}

/** Returns the ids of the tasks that an answer has started. */
export function taskIdsOf(status: number, data: unknown): string[] {
  if (status !== 202) return []
  if (Array.isArray(data)) return data.filter((id): id is string => typeof id === 'string')
  const id = (data as { task_id?: unknown } | null | undefined)?.task_id
  return typeof id === 'string' ? [id] : []
}

export function progressLine(task: Task): string {
  const { action, container_name: guest, image_id: image, status, progress, stage } = task
  const subject = [action, guest || image].filter(Boolean).join(' ')
  if (status === 'running') return `${subject}: ${[stage, `${progress} %`].filter(Boolean).join(', ')}`
  return `${subject}: ${status}`
}
