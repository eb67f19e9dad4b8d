import type { CurrentItem } from './plan-current.js'
import type { Problem, WantedState, WantedItem } from './plan-wanted.js'

/* This module checks that each guest or host named in a file exists in the file or in the fleet. */

interface FleetObjects {
  readonly items: readonly CurrentItem[]
  /** Names of the hosts by their ids; undefined: the hosts are not known. */
  readonly hosts: ReadonlyMap<string, string> | undefined
}

export function planReferences({ items }: WantedState, { items: present, hosts }: FleetObjects): Problem[] {
  const isGuest = ({ kind }: WantedItem | CurrentItem): boolean => kind.noun === 'guest'
  const found = present.filter(isGuest)
  const guests = new Set([...items.filter(isGuest), ...found].map(({ name }) => name))
  const listed = new Set(present.flatMap((item) => (isGuest(item) ? [] : guestsIn(item))))
  const isKnown = (name: string): boolean => guests.has(name) || listed.has(name)
  return items.flatMap((item) => [...guestProblems(item, isKnown), ...hostProblems(item, hosts)])
}

function guestProblems(item: WantedItem, isKnown: (name: string) => boolean): Problem[] {
  const { document, path } = item
  return guestsIn(item)
    .filter((name) => !isKnown(name))
    .map((name) => ({ document, path: [...path, 'guests'], message: `guest ${name} does not exist` }))
}

function hostProblems({ document, path, fields }: WantedItem, hosts: FleetObjects['hosts']): Problem[] {
  const { host } = fields as { host?: string }
  if (host === undefined || hosts === undefined || [...hosts].flat().includes(host)) return []
  return [{ document, path: [...path, 'host'], message: `host ${host} does not exist` }]
}

/** Returns the guests of a customer or an API key. */
const guestsIn = ({ fields }: { readonly fields: Readonly<Record<string, unknown>> }): readonly string[] =>
  (fields['guests'] ?? []) as readonly string[]
