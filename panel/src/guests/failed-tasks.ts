import type { Task } from '../api/types.ts'

type EndedTask = Pick<Task, 'task_id' | 'status' | 'user' | 'finished_at'>

/** Finds tasks of a user that have failed since the first list of tasks was read. */
export class FailedTasks {
  #known: Set<string> | undefined
  #since = ''

  /** @param rows the newest tasks @returns tasks of the user that failed since the last call */
  take<Row extends EndedTask>(rows: readonly Row[], user: string): Row[] {
    const ended = rows.filter(({ finished_at: at }) => at !== '')
    if (this.#known === undefined)
      this.#since =
        ended
          .map(({ finished_at: at }) => at)
          .sort()
          .at(-1) ?? ''
    const known = this.#known ?? new Set(ended.map(({ task_id: id }) => id))
    this.#known = known
    // Older tasks move up in the list when newer ones are removed.
    const fresh = ended.filter(({ task_id: id, finished_at: at }) => !known.has(id) && at >= this.#since)
    for (const { task_id: id } of fresh) known.add(id)
    return fresh.filter((task) => task.status === 'failed' && task.user === user)
  }
}
