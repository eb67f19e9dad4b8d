/**
 * Waits until all promises are settled, so that a retry after a failure never overlaps them.
 * @throws the first rejection, in the order of the promises
 */
export async function allEnded<T extends readonly Promise<unknown>[] | []>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
