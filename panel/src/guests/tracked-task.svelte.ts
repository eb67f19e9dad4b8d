import { untrack } from 'svelte'
import type { Task } from '../api/types.ts'
import { tasks } from './guests.svelte.ts'

/** Follows one task. Create it during the initialization of a component. */
export class TrackedTask {
  /** The newest known state of the task. It is kept if the list of the newest tasks no longer contains the task. */
  #task = $state.raw<Task | undefined>()
  /** The stages that the task has reached, in this order. */
  #stages = $state.raw<readonly string[]>([])
  readonly status = $derived(this.#task?.status ?? 'pending')
  readonly failed = $derived(this.status === 'failed' || this.status === 'canceled')
  readonly progress = $derived(this.status === 'done' ? 100 : (this.#task?.progress ?? 0))

  /** @param idOf returns the id of the task, always the same */
  constructor(readonly idOf: () => string) {
    $effect(() => {
      const found = tasks.rows?.find(({ task_id: id }) => id === idOf())
      if (found) this.#update(found)
    })
  }

  get task(): Task | undefined {
    return this.#task
  }

  get stages(): readonly string[] {
    return this.#stages
  }

  #update(task: Task): void {
    this.#task = task
    const known = untrack(() => this.#stages)
    if (task.stage === '' || known.at(-1) === task.stage) return
    this.#stages = [...known.filter((one) => one !== task.stage), task.stage]
  }
}
