/** Groups of events that a webhook can receive. */
export const eventKinds = ['guest', 'task', 'host', 'alert'] as const
export type EventKind = (typeof eventKinds)[number]

/** The words of a request. */
export function wordsOf(kinds: readonly EventKind[]): string[] {
  return eventKinds.every((kind) => kinds.includes(kind)) ? ['*'] : kinds.map((kind) => `${kind}.*`)
}

/** Names of the kinds in words that are kinds as a whole, and the other words as they are. */
export function shownWords(words: readonly string[], nameOf: (kind: EventKind | '*') => string): string {
  const shown = words.map((word) => {
    const kind = [...eventKinds, '*' as const].find((one) => word === one || word === `${one}.*`)
    return kind === undefined ? word : nameOf(kind)
  })
  return shown.join(', ')
}
