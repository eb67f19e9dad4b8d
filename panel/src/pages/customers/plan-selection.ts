/** Returns which guests a selection adds to those of a customer, and which it removes. */
export function planSelection(
  owned: readonly string[],
  selected: readonly string[],
): { added: string[]; removed: string[] } {
  return {
    added: selected.filter((uuid) => !owned.includes(uuid)),
    removed: owned.filter((uuid) => !selected.includes(uuid)),
  }
}

/** Applies a selection to the guests that the customer has now, after another client has changed them. */
export function rebaseSelection(
  owned: readonly string[],
  selected: readonly string[],
  now: readonly string[],
): string[] {
  const { added, removed } = planSelection(owned, selected)
  return [...new Set([...now, ...added])].filter((uuid) => !removed.includes(uuid))
}
