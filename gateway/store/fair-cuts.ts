/*
 * If a shared list of entries is full, the callers with the most entries lose some of them. One caller therefore cannot
 * push out the entries of other callers.
 */

/**
 * Number of entries of a caller. Callers with the same `root`, for example keys of one creator, first count as one
 * caller with the sum of their entries. The entries to remove from the sum are then divided among these callers.
 */
export interface Share {
  readonly root: string
  readonly ref: string
  readonly count: number
}

/** Plans how many entries of each caller are removed. @returns numbers by `ref`; their sum is `excess` */
export function planCuts(shares: readonly Share[], excess: number): Map<string, number> {
  const roots = new Map<string, Map<string, number>>()
  for (const { root, ref, count } of shares)
    roots.set(root, (roots.get(root) ?? new Map<string, number>()).set(ref, count))
  const totals = new Map([...roots].map(([root, refs]) => [root, sum(refs.values())]))
  const cuts = new Map<string, number>()
  for (const [root, cut] of cutLargest(totals, excess))
    for (const [ref, part] of cutLargest(roots.get(root)!, cut)) cuts.set(ref, part)
  return cuts
}

/**
 * Plans the removal of `excess` entries by reducing the largest counts to one common number. If the excess cannot be
 * divided evenly, some of these counts lose one more entry. @returns removed entries by name
 */
function cutLargest(counts: ReadonlyMap<string, number>, excess: number): Map<string, number> {
  const sorted = [...counts].sort((a, b) => b[1] - a[1])
  const level = levelOf(
    sorted.map(([, count]) => count),
    excess,
  )
  let rest = excess - sum(sorted.map(([, count]) => Math.max(0, count - level)))
  const cuts = sorted.map(([name, count]) => {
    const more = count >= level && rest > 0 ? 1 : 0
    rest -= more
    return [name, Math.max(0, count - level) + more] as const
  })
  return new Map(cuts.filter(([, cut]) => cut > 0))
}

/** Number to which the largest counts are reduced. @param sorted counts, the largest first */
function levelOf(sorted: readonly number[], excess: number): number {
  let top = 0
  for (let at = 0; at < sorted.length; at++) {
    top += sorted[at]!
    const level = Math.max(0, Math.ceil((top - excess) / (at + 1)))
    if (level >= (sorted[at + 1] ?? 0)) return level
  }
  return 0
}

function sum(counts: Iterable<number>): number {
  let total = 0
  for (const count of counts) total += count
  return total
}
