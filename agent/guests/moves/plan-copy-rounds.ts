const mib = 1024 * 1024

/** An increment of this size takes a fraction of a second, so the guest can be stopped for the next one. */
const smallBytes = 8 * mib
/** Rounds after which a guest that writes faster than the transfer is stopped anyway. */
const maxRounds = 8

/** True if another increment should be sent while the guest runs. @param sent bytes of the increments so far */
export function needsRound(sent: readonly number[]): boolean {
  const [before, last] = sent.slice(-2)
  if (last === undefined && before === undefined) return true
  const newest = last ?? before!
  if (sent.length >= maxRounds || newest <= smallBytes) return false
  return last === undefined || last < before! * 0.8
}

/** Finds the newest snapshot that both hosts have. @param ids snapshots of the source, oldest first */
export function findParent(ids: readonly string[], targetHas: ReadonlySet<string>): string | undefined {
  return ids.findLast((id) => targetHas.has(id))
}
