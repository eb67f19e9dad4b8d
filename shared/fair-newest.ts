/**
 * Shortens a shared list fairly to its newest entries. The owners with the most entries lose their oldest ones.
 * @param newestFirst the list, newest entry first
 * @param ownerOf returns the owner of an entry
 * @returns at most `most` entries, newest entry first
 */
export function fairlyNewest<T>(newestFirst: readonly T[], ownerOf: (entry: T) => string, most: number): readonly T[] {
  if (newestFirst.length <= most) return newestFirst
  const depths = depthsOf(newestFirst.map(ownerOf))
  // Sorts by the number of newer entries of the same owner, fewest first. For equal numbers: newest entry first.
  const order = [...newestFirst.keys()].sort((a, b) => depths[a]! - depths[b]! || a - b)
  const kept = new Set(order.slice(0, most))
  return newestFirst.filter((_, at) => kept.has(at))
}

/** Counts for each entry how many newer entries its owner has. */
function depthsOf(owners: readonly string[]): number[] {
  const counts = new Map<string, number>()
  return owners.map((owner) => {
    const depth = counts.get(owner) ?? 0
    counts.set(owner, depth + 1)
    return depth
  })
}
