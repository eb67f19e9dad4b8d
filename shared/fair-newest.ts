/**
 * The newest of a list that several fill, where not all have room: whoever has most gives up his oldest.
 * @param newestFirst the list
 * @param ownerOf whom an entry belongs to
 * @returns at most `most` of them, in the same order
 */
export function fairlyNewest<T>(
  newestFirst: readonly T[],
  ownerOf: (entry: T) => string,
  most: number,
): readonly T[] {
  if (newestFirst.length <= most) return newestFirst
  const depths = depthsOf(newestFirst.map(ownerOf))
  // Those of the same depth are given up from the oldest on.
  const order = [...newestFirst.keys()].sort((a, b) => depths[a]! - depths[b]! || a - b)
  const kept = new Set(order.slice(0, most))
  return newestFirst.filter((_, at) => kept.has(at))
}

/** How many newer entries the owner of each has. */
function depthsOf(owners: readonly string[]): number[] {
  const counts = new Map<string, number>()
  return owners.map((owner) => {
    const depth = counts.get(owner) ?? 0
    counts.set(owner, depth + 1)
    return depth
  })
}
