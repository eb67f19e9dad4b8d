/** Types of events that a webhook can receive, by kind. A test compares them with the types of the gateway. */
const eventTypes = {
  guest: [
    ...['created', 'updated', 'removed', 'suspended', 'unsuspended'],
    ...['moved', 'standby_failed', 'deleted', 'undeleted'],
  ],
  task: ['pending', 'running', 'done', 'failed', 'canceled', 'removed'],
  host: [
    ...['added', 'online', 'offline', 'updated', 'removed'],
    ...['upgraded', 'upgrade_failed', 'drained', 'fenced'],
  ],
  alert: ['raised', 'updated', 'removed'],
  maintenance: ['announced', 'changed', 'started', 'ended', 'canceled'],
} as const satisfies Readonly<Record<string, readonly string[]>>
export type EventKind = keyof typeof eventTypes

/** Kinds of events that a webhook can receive. */
export const eventKinds = Object.keys(eventTypes) as readonly EventKind[]
const isOfKind = (word: string, kind: string): boolean => word.startsWith(`${kind}.`)

/** Returns the pattern for all events of a kind. */
export const allOf = (kind: EventKind): string => `${kind}.*`
/** Returns the names of all types of a kind, such as `task.failed`. */
export const typesOf = (kind: EventKind): string[] => eventTypes[kind].map((type) => `${kind}.${type}`)

/**
 * Selects or deselects a type of events, or a pattern for a whole kind.
 * @returns the selected types and patterns. A selected kind replaces its types
 */
export function chooseEvents(chosen: readonly string[], word: string, isChosen: boolean): string[] {
  const whole = eventKinds.find((kind) => allOf(kind) === word)
  const others = chosen.filter((one) => (whole === undefined ? one !== word : !isOfKind(one, whole)))
  return isChosen ? [...others, word] : others
}

/** Returns the types and patterns that the API expects for the selected ones. */
export function wordsOf(chosen: readonly string[]): string[] {
  return eventKinds.every((kind) => chosen.includes(allOf(kind))) ? ['*'] : [...chosen]
}

/** Replaces a pattern for all events of a kind, such as `guest.*`, by the name of the kind. Other patterns stay. */
export function shownWords(words: readonly string[], nameOf: (kind: EventKind | '*') => string): string {
  const shown = words.map((word) => {
    const kind = [...eventKinds, '*' as const].find((one) => word === one || word === `${one}.*`)
    return kind === undefined ? word : nameOf(kind)
  })
  return shown.join(', ')
}
