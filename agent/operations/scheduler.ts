import { Queue } from './queue.js'
import type { SubjectRef } from './types.js'

/** The data of an operation that scheduling needs. Other data is read from the journal when the task runs. */
export interface Task {
  readonly id: string
  /** Tasks of one subject run one after another. */
  readonly subject: SubjectRef
  readonly forwardOnly: boolean
  /** True as soon as the operation runs, even if the journal does not contain its start yet. */
  begun: boolean
}

interface Lane {
  current: Task
  readonly waiting: Queue<Task>
}

interface Turn {
  readonly task: Task
  readonly go: () => void
}

/**
 * Decides which task runs next. Tasks of one subject run one after another, and tasks of different subjects start in
 * order of arrival. At most `parallel` tasks run at once. The time of a call does not depend on the number of tasks.
 */
export class Scheduler {
  readonly #lanes = new Map<string, Lane>()
  readonly #ready = new Queue<Turn>()
  readonly #dropped = new WeakSet<Task>()
  /** Tasks that count towards the limit `parallel`: those that run and are not paused. */
  readonly #placed = new Set<Task>()
  readonly #active = new Map<Task, Promise<void>>()
  #pumping = false
  #closed = false
  #waiting = 0

  /** @param run runs a task; its promise must not reject */
  constructor(
    private readonly parallel: number,
    private readonly run: (task: Task) => Promise<void>,
  ) {}

  /** Number of tasks that have begun and not ended, including paused ones. */
  get running(): number {
    return this.#active.size
  }

  get waiting(): number {
    return this.#waiting
  }

  busy(subject: SubjectRef): boolean {
    return this.#lanes.has(keyOf(subject))
  }

  add(task: Task): void {
    this.#waiting += 1
    const key = keyOf(task.subject)
    const lane = this.#lanes.get(key)
    if (lane) return lane.waiting.push(task)
    this.#lanes.set(key, { current: task, waiting: new Queue() })
    this.#enqueue({ task, go: () => this.#start(task) })
  }

  /** Returns the tasks of a subject in the order in which they run. Only the first task may have begun. */
  tasks(subject: SubjectRef): Task[] {
    const lane = this.#lanes.get(keyOf(subject))
    return lane ? [lane.current, ...lane.waiting].filter((task) => !this.#dropped.has(task)) : []
  }

  drop(task: Task): void {
    this.#dropped.add(task) // the task stays in its queue, which skips the tasks in `#dropped`
    this.#waiting -= 1
    this.#advance(task)
  }

  /** Runs `wait`, during which the task does not count towards `parallel`. Other tasks of its subject still wait. */
  async pause<T>(task: Task, wait: () => Promise<T>): Promise<T> {
    this.#placed.delete(task)
    this.#pump()
    try {
      return await wait()
    } finally {
      await new Promise<void>((go) => this.#enqueue({ task, go }))
    }
  }

  /** Starts no new tasks, and waits until the running tasks end. Paused tasks continue regardless of `parallel`. */
  async close(): Promise<void> {
    this.#closed = true
    for (const turn of this.#ready) if (this.#active.has(turn.task)) turn.go()
    await Promise.all(this.#active.values())
  }

  #start(task: Task): void {
    this.#waiting -= 1
    task.begun = true
    const running = this.run(task).finally(() => {
      this.#active.delete(task)
      this.#placed.delete(task)
      this.#advance(task)
      this.#pump()
    })
    this.#active.set(task, running)
  }

  #advance(ended: Task): void {
    const key = keyOf(ended.subject)
    const lane = this.#lanes.get(key)
    if (lane?.current !== ended) return
    let next = lane.waiting.shift()
    while (next && this.#dropped.has(next)) next = lane.waiting.shift()
    if (!next) return void this.#lanes.delete(key)
    const task = (lane.current = next)
    this.#enqueue({ task, go: () => this.#start(task) })
  }

  #enqueue(turn: Turn): void {
    if (this.#closed && this.#active.has(turn.task)) return turn.go()
    this.#ready.push(turn)
    this.#pump()
  }

  /** Starts tasks in a later turn of the event loop, so that callers get their answer before a task begins. */
  #pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    setImmediate(() => {
      this.#pumping = false
      while (!this.#closed && this.#placed.size < this.parallel) {
        const turn = this.#ready.shift()
        if (!turn) return
        if (this.#dropped.has(turn.task)) continue
        this.#placed.add(turn.task)
        turn.go()
      }
    })
  }
}

function keyOf({ kind, id }: SubjectRef): string {
  return `${kind}:${id}`
}
