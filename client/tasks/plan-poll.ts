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
