export interface EachOptions {
  /** How many items are worked on at once. */
  readonly limit: number
  /** Once it is aborted, the remaining items are dropped without an error. */
  readonly signal?: AbortSignal
}

/**
 * Runs `work` on all items, a few at a time, in order.
 * @param work must not fail
 */
export async function eachLimited<Item>(
  items: readonly Item[],
  { limit, signal }: EachOptions,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values()
  const runSome = async (): Promise<void> => {
    for (const item of rest) {
      if (signal?.aborted) return
      await work(item)
    }
  }
  await Promise.all(Array.from({ length: limit }, runSome))
}
