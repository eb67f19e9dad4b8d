/* This module finds the object that a text names. If no object has this name, it finds similar names. */

export interface Candidate {
  readonly id: string
  readonly name: string
  /** UUID; its beginning is enough to name the object. */
  readonly uuid: string
}

export type Match =
  { readonly found: Candidate } | { readonly similar: readonly string[]; readonly isAmbiguous: boolean }

/**
 * A beginning of a UUID that selects an object. It has at least eight digits. A shorter text, such as the word `cafe`,
 * could select an object that the user did not mean.
 */
const uuidPrefix = /^[0-9a-f]{8}(-[0-9a-f-]*)?$/i
const maxSuggestions = 3

export function matchName(text: string, candidates: readonly Candidate[]): Match {
  const exact = candidates.find(({ id, name, uuid }) => [id, name, uuid].includes(text))
  if (exact) return { found: exact }
  const isPrefix = uuidPrefix.test(text) && !/^\d+$/.test(text)
  const begun = isPrefix ? candidates.filter(({ uuid }) => uuid.startsWith(text.toLowerCase())) : []
  if (begun.length === 1) return { found: begun[0]! }
  if (begun.length > 1) return { similar: begun.map(({ name }) => name).slice(0, maxSuggestions), isAmbiguous: true }
  const ranked = candidates
    .map(({ name }) => ({ name, distance: distanceOf(text.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.ceil(text.length / 3)) || name.startsWith(text))
    .sort((a, b) => a.distance - b.distance)
  return { similar: ranked.map(({ name }) => name).slice(0, maxSuggestions), isAmbiguous: false }
}

/** Number of inserted, deleted and replaced characters between two texts (Levenshtein). */
export function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + Number(a[i - 1] !== b[j - 1])))
    row = next
  }
  return row[b.length]!
}
