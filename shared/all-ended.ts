/**
 * What several works give, once all have ended: what is tried again after a failure runs beside none of them.
 * @throws the first failure in their order
 */
export async function allEnded<T extends readonly Promise<unknown>[] | []>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
