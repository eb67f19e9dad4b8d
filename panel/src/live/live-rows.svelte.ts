import { asFailure, type ApiFailure } from '../api/failure.ts'
import type { Change, Topic } from './changes.ts'
import { live } from './live.svelte.ts'

export interface LiveRowsParts<Row> {
  readonly topic: Topic
  /** All of them; undefined: they are as they were read before. */
  readonly read: () => Promise<readonly Row[] | undefined>
  /** Whether a change is told with the row as it is now. */
  readonly tells: (change: Change) => boolean
  readonly apply: (rows: readonly Row[], changes: readonly Change[]) => readonly Row[]
}

/** Rows that are read once; from then on changes are put in as the gateway tells them. */
export class LiveRows<Row> {
  rows = $state.raw<readonly Row[] | undefined>()
  failure = $state.raw<ApiFailure | undefined>()
  /** Not put in yet. */
  #changes: Change[] = []
  /** Told since the reading began: its answer may be older. */
  #meanwhile: Change[] | undefined
  #followers = 0
  #end: () => void = () => undefined

  constructor(private readonly parts: LiveRowsParts<Row>) {}

  /** Keeps the rows fresh while a component is there. To be called in an effect. @returns what ends it */
  follow(): () => void {
    if (this.#followers++ === 0)
      this.#end = live.follow(
        [this.parts.topic],
        () => this.refetch(),
        (change) => this.#take(change),
      )
    return () => {
      if (--this.#followers === 0) this.#end()
    }
  }

  async refetch(): Promise<void> {
    const meanwhile = (this.#meanwhile = [] as Change[])
    try {
      const rows = await this.parts.read()
      if (meanwhile !== this.#meanwhile) return
      if (rows) this.rows = this.parts.apply(rows, meanwhile)
      this.failure = undefined
    } catch (thrown) {
      this.failure = asFailure(thrown)
    } finally {
      if (meanwhile === this.#meanwhile) this.#meanwhile = undefined
    }
  }

  #take(change: Change): boolean {
    if (!this.parts.tells(change)) return false
    this.#meanwhile?.push(change)
    // What comes together is put in together: a list may have thousands of rows.
    if (this.#changes.push(change) === 1) queueMicrotask(() => this.#putIn())
    return true
  }

  #putIn(): void {
    if (this.rows) this.rows = this.parts.apply(this.rows, this.#changes)
    this.#changes = []
  }
}
