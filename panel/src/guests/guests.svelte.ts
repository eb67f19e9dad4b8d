import { send, api } from '../api/client.ts'
import type { Guest, Task } from '../api/types.ts'
import { live } from '../live/live.svelte.ts'
import { LiveRows } from '../live/live-rows.svelte.ts'
import { applyToGuests, applyToTasks, keptTasks } from './rows.ts'

/** All guests that the user is allowed to see. */
class GuestList extends LiveRows<Guest> {
  constructor() {
    let etag = ''
    super({
      topic: 'guests',
      read: async () => {
        const headers = etag === '' ? {} : { 'If-None-Match': etag }
        const envelope = await send(async () => {
          const answer = await api.GET('/containers', { headers, cache: 'no-store' })
          if (answer.response.status === 200) etag = answer.response.headers.get('etag') ?? ''
          return answer
        })
        return (envelope as typeof envelope | undefined)?.data
      },
      tells: ({ type }) => type.startsWith('guest.') && type !== 'guest.host',
      apply: (rows, changes) => {
        // The rows now differ from the last response. A request with its ETag could get a 304 for the old rows.
        if (changes.length > 0) etag = ''
        return applyToGuests(rows, changes)
      },
    })
  }
}

export const guests = new GuestList()

/** The newest tasks, for the task drawer, its badge, and pages that wait for a task. */
class TaskList extends LiveRows<Task> {
  readonly active = $derived((this.rows ?? []).filter(isActive))

  constructor() {
    super({
      topic: 'tasks',
      read: async () => {
        const query = { page: 1, page_size: keptTasks }
        return (await send(() => api.GET('/tasks', { params: { query } }))).data
      },
      tells: () => true,
      apply: applyToTasks,
    })
  }
}

function isActive({ status }: Task): boolean {
  return status === 'pending' || status === 'running'
}

export const tasks = new TaskList()

/** Reads tasks and guests again at once. Call it after a request was submitted. */
export function ordered(): void {
  live.touch('tasks', 'guests')
}
