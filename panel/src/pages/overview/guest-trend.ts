/** Figures of the number of guests within a period. */
export interface GuestTrend {
  /** The number of each day, oldest first. Null: not known. */
  readonly counts: readonly (number | null)[]
  /** The numbers as percentages of the highest one, for a sparkline. */
  readonly percentages: readonly (number | null)[]
  /** Change from the first to the last known day. `undefined`: fewer than two days are known. */
  readonly change: number | undefined
  readonly first: number | undefined
  readonly last: number | undefined
}

/** @param history daily numbers, oldest first; null: not known */
export function planGuestTrend(history: readonly (number | null)[], days: number): GuestTrend {
  const counts = history.slice(-days)
  const known = counts.filter((count) => count !== null)
  const highest = Math.max(1, ...known)
  const [first, last] = [known[0], known.at(-1)]
  return {
    counts,
    percentages: counts.map((count) => (count === null ? null : (count / highest) * 100)),
    change: known.length < 2 || first === undefined || last === undefined ? undefined : last - first,
    first,
    last,
  }
}
