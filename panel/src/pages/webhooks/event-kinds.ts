/** Kinds of events that a webhook can receive. */
export const eventKinds = ['guest', 'task', 'host', 'alert', 'maintenance'] as const
export type EventKind = (typeof eventKinds)[number]

/** Returns the event patterns that the API expects for the selected kinds. */
export function wordsOf(kinds: readonly EventKind[]): string[] {
  return eventKinds.every((kind) => kinds.includes(kind)) ? ['*'] : kinds.map((kind) => `${kind}.*`)
}

/** Replaces a pattern for all events of a kind, such as `guest.*`, by the name of the kind. Other patterns stay. */
export function shownWords(words: readonly string[], nameOf: (kind: EventKind | '*') => string): string {
  const shown = words.map((word) => {
    const kind = [...eventKinds, '*' as const].find((one) => word === one || word === `${one}.*`)
    return kind === undefined ? word : nameOf(kind)
  })
  return shown.join(', ')
}
