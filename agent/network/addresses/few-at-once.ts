const atOnce = 8

/**
 * Work that nobody waits for, a few of its items at a time; what is left when the signal comes is given up.
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
