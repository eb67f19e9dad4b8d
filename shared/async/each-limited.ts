export interface EachOptions {
  /** Maximum number of items in progress at once. */
  readonly limit: number
  /** When this signal is aborted, the remaining items are skipped without an error. */
  readonly signal?: AbortSignal
}

/**
 * Starts `work` for the items in the order of the list. At most `limit` items are in progress at once.
 * @param work must never reject
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
