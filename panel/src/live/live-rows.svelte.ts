import { asFailure, type ApiFailure } from '../api/failure.ts'
import type { Change, Topic } from './changes.ts'
import { live } from './live.svelte.ts'

export interface LiveRowsParts<Row> {
  readonly topic: Topic
  /** Reads all rows. Resolves with undefined if no row has changed since the previous read. */
  readonly read: () => Promise<readonly Row[] | undefined>
  /** True if the event itself contains the changed row. If false, all rows are read again. */
  readonly tells: (change: Change) => boolean
  readonly apply: (rows: readonly Row[], changes: readonly Change[]) => readonly Row[]
}

/** The rows of a list. They are read completely at first, and then updated with the gateway's events. */
export class LiveRows<Row> {
  rows = $state.raw<readonly Row[] | undefined>()
  failure = $state.raw<ApiFailure | undefined>()
  /** Changes that were received but are not applied yet. */
  #changes: Change[] = []
  /** Changes that arrive during a read of the rows. They are applied after the read, because its rows can lack them. */
  #meanwhile: Change[] | undefined
  #followers = 0
  #end: () => void = () => undefined

  constructor(private readonly parts: LiveRowsParts<Row>) {}

  /** Keeps the rows up to date. Call it in an effect. @returns a function that ends the updates */
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
    // Simultaneous changes are applied together, because a list can have thousands of rows.
    if (this.#changes.push(change) === 1) queueMicrotask(() => this.#putIn())
    return true
  }

  #putIn(): void {
    if (this.rows) this.rows = this.parts.apply(this.rows, this.#changes)
    this.#changes = []
  }
}
