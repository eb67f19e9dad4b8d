import { asFailure, type ApiFailure } from '../api/failure.ts'
import type { Change } from './changes.ts'
import { live, type Topic } from './live.svelte.ts'

/**
 * Data that a page reads from the gateway, and reads again when a topic changes. Create it during the initialization of
 * a component. Data without topics is read again only on request. Forms use such data as their initial content, because
 * new data would replace what the user has typed.
 */
export class Resource<T> {
  data = $state.raw<T | undefined>()
  failure = $state.raw<ApiFailure | undefined>()
  #turn = 0
  #latest = Promise.resolve()

  constructor(
    topics: readonly Topic[],
    private readonly read: () => Promise<T>,
    concerns: (change: Change) => boolean = () => true,
  ) {
    $effect(() =>
      live.follow(
        topics,
        () => (topics.length > 0 || this.data === undefined ? this.refetch() : undefined),
        (change) => !concerns(change),
      ),
    )
  }

  /** Reads the data again. If another read begins meanwhile, this resolves when the later one has ended. */
  refetch = (): Promise<void> => (this.#latest = this.#readOnce(++this.#turn))

  async #readOnce(turn: number): Promise<void> {
    try {
      const data = await this.read()
      if (turn !== this.#turn) return await this.#latest
      this.data = data
      this.failure = undefined
    } catch (thrown) {
      if (turn !== this.#turn) return this.#latest
      this.failure = asFailure(thrown)
    }
  }
}
