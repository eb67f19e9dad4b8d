/**
 * The newest entries of a shared list that is too long: the owners with the most lose their oldest entries.
 * @param newestFirst the list
 * @param ownerOf owner of an entry
 * @returns at most `most` of them, in the same order
 */
export function fairlyNewest<T>(newestFirst: readonly T[], ownerOf: (entry: T) => string, most: number): readonly T[] {
  if (newestFirst.length <= most) return newestFirst
  const depths = depthsOf(newestFirst.map(ownerOf))
  // Removes the oldest of the entries with the same depth first.
  const order = [...newestFirst.keys()].sort((a, b) => depths[a]! - depths[b]! || a - b)
  const kept = new Set(order.slice(0, most))
  return newestFirst.filter((_, at) => kept.has(at))
}

/** For each entry, how many newer entries its owner has. */
function depthsOf(owners: readonly string[]): number[] {
  const counts = new Map<string, number>()
  return owners.map((owner) => {
    const depth = counts.get(owner) ?? 0
    counts.set(owner, depth + 1)
    return depth
  })
}
