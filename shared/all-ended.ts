/**
 * Waits until all promises are settled, so that a retry after a failure never overlaps with their work.
 * @throws the rejection of the first promise in the list that failed
 */
export async function allEnded<T extends readonly Promise<unknown>[] | []>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
