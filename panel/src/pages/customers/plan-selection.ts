/** Compares the guests of a customer with a new selection. Returns the guests to add and to remove. */
export function planSelection(
  owned: readonly string[],
  selected: readonly string[],
): { added: string[]; removed: string[] } {
  return {
    added: selected.filter((uuid) => !owned.includes(uuid)),
    removed: owned.filter((uuid) => !selected.includes(uuid)),
  }
}

/** Applies the changes from `owned` to `selected` to `now`. `now` includes changes by another client. */
export function rebaseSelection(
  owned: readonly string[],
  selected: readonly string[],
  now: readonly string[],
): string[] {
  const { added, removed } = planSelection(owned, selected)
  return [...new Set([...now, ...added])].filter((uuid) => !removed.includes(uuid))
}
