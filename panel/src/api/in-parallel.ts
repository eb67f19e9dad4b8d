/** Maximum number of requests that are in progress at the same time. */
const parallel = 4

/**
 * Runs some work for each item, a few at the same time. A failure does not stop the others.
 * @param work must not throw
 */
export async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item)
  }
  await Promise.all(Array.from({ length: parallel }, worker))
}
