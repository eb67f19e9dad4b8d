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
  #latest: Promise<void> | undefined

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
  refetch = (): Promise<void> => {
    const read: Promise<void> = this.read().then(
      (data): Promise<void> | undefined => this.#settle(read, data, undefined),
      (thrown: unknown): Promise<void> | undefined => this.#settle(read, this.data, asFailure(thrown)),
    )
    this.#latest = read
    return read
  }

  #settle(read: Promise<void>, data: T | undefined, failure: ApiFailure | undefined): Promise<void> | undefined {
    if (read !== this.#latest) return this.#latest
    this.data = data
    this.failure = failure
    return undefined
  }
}
