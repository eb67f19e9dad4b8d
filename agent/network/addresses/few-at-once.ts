const atOnce = 8

/**
 * Runs `work` on the items, a few at a time; once the signal is aborted the remaining items are dropped.
 * @param work must not fail
 */
export async function fewAtOnce<T>(
  items: readonly T[],
  signal: AbortSignal,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = [...items]
  const some = async (): Promise<void> => {
    while (rest.length > 0 && !signal.aborted) await work(rest.shift()!)
  }
  await Promise.all(Array.from({ length: atOnce }, some))
}
