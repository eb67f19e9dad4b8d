/**
 * Waits until all promises are settled, so that a retry after a failure never overlaps with their work.
 * @throws the error of the first promise that failed, in the order of the list
 */
export async function allEnded<T extends readonly Promise<unknown>[] | []>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
