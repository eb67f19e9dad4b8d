import { isMark, markOf, withMarks } from './marks.js'
import { nameKey, type Field, type Fields, type Kind } from './kinds.js'
import type { CurrentItem } from './plan-current.js'
import { planReferences } from './plan-references.js'
import type { Problem, WantedState, WantedItem } from './plan-wanted.js'

/* This module compares the wanted objects with the present ones. */

export type Change = Creation | Alteration | Deletion

export interface Creation {
  readonly action: 'create'
  readonly wanted: WantedItem
}

export interface Alteration {
  readonly action: 'change'
  readonly wanted: WantedItem
  readonly current: CurrentItem
  /** Wanted values of the fields that differ. */
  readonly fields: Fields
}

export interface Deletion {
  readonly action: 'delete'
  readonly current: CurrentItem
}

export interface Plan {
  readonly changes: readonly Change[]
  /** Guests of the file that an earlier run is still creating. */
  readonly unfinished: readonly CurrentItem[]
  /** Sentences about differences that `berth apply` leaves unchanged. */
  readonly notes: readonly string[]
  readonly problems: readonly Problem[]
}

export interface Present {
  readonly items: readonly CurrentItem[]
  /** Names of the hosts by their ids; undefined: the API key is not allowed to read hosts. */
  readonly hosts: ReadonlyMap<string, string> | undefined
}

/** @param isPruned true to delete guests that an earlier version of the file has created */
export function planChanges(wanted: WantedState, present: Present, isPruned: boolean): Plan {
  const known = new Map<string, CurrentItem[]>()
  for (const item of present.items) known.set(keyOf(item), [...(known.get(keyOf(item)) ?? []), item])
  const plans = wanted.items.map((item) => planItem(item, known.get(keyOf(item)) ?? [], present))
  const surplus = planSurplus(wanted, present, isPruned)
  return {
    changes: [...plans.flatMap(({ change }) => change ?? []), ...surplus.deletions],
    unfinished: plans.flatMap(({ unfinished }) => unfinished ?? []),
    notes: [...plans.flatMap(({ note }) => note ?? []), ...surplus.notes],
    problems: [...plans.flatMap(({ problems = [] }) => problems), ...planReferences(wanted, present)],
  }
}

const keyOf = ({ kind, name }: { readonly kind: Kind; readonly name: string }): string =>
  `${kind.noun} ${nameKey(kind, name)}`

interface ItemPlan {
  readonly change?: Change
  readonly unfinished?: CurrentItem
  readonly note?: string
  readonly problems?: readonly Problem[]
}

function planItem(wanted: WantedItem, found: readonly CurrentItem[], { hosts }: Present): ItemPlan {
  const [current, ...others] = found
  if (current === undefined) return planCreation(wanted)
  if (others.length > 0) {
    const message = `${found.length} objects of the fleet have this name: give them different names first`
    return { problems: [{ ...wanted, message }] }
  }
  const fields = differingFields(wanted, current)
  const note = hostNote(wanted, current, hosts)
  return {
    problems: planFixed(wanted, current, fields),
    ...(Object.keys(fields).length > 0 && { change: { action: 'change', wanted, current, fields } as const }),
    ...(current.status === 'creating' && { unfinished: current }),
    ...(note !== undefined && { note }),
  }
}

/** Returns a note if a guest is on another host than the file names; otherwise undefined. */
function hostNote({ name, fields }: WantedItem, current: CurrentItem, hosts: Present['hosts']): string | undefined {
  const { host } = fields as { host?: string }
  const present = String(current.fields['host'])
  if (host === undefined || (hosts?.get(host) ?? host) === present) return undefined
  return `guest ${name} is on host ${present} and stays there; move it with: berth migrate ${name} ${host}`
}

function planCreation(wanted: WantedItem): ItemPlan {
  const missing = wanted.kind.required.filter((name) => wanted.fields[name] === undefined)
  const problems = missing.map((name) => ({ ...wanted, message: `${name} is required for a new ${wanted.kind.noun}` }))
  return { problems, change: { action: 'create', wanted } }
}

export function differingFields({ kind, fields }: WantedItem, current: CurrentItem): Fields {
  const all = withMarks(fields, ((current.fields['tags'] ?? []) as string[]).filter(isMark))
  const differing = kind.fields.filter((field) => all[field.name] !== undefined && differs(field, all, current.fields))
  return Object.fromEntries(differing.map(({ name }) => [name, all[name]]))
}

function differs({ name, change, form }: Field, wanted: Fields, current: Fields): boolean {
  if (change === 'initial' || current[name] === undefined) return false
  if (form.parts === undefined) return JSON.stringify(wanted[name]) !== JSON.stringify(current[name])
  const { added, removed } = form.parts(wanted[name], current[name])
  return added.length + removed.length > 0
}

/** Finds differences between the file and the fleet that no request can remove. */
function planFixed(wanted: WantedItem, { kind, fields: current }: CurrentItem, fields: Fields): Problem[] {
  const problem = (name: string, message: string): Problem => ({
    document: wanted.document,
    path: [...wanted.path, name],
    message,
  })
  const fixed = kind.fields.filter(({ name, change }) => change === 'fixed' && fields[name] !== undefined)
  const isSmaller = Number(fields['disk']) < Number(current['disk'])
  return [
    ...fixed.map(({ name }) =>
      problem(name, `is ${String(current[name])} and cannot be changed to ${String(fields[name])}`),
    ),
    ...(isSmaller ? [problem('disk', `cannot shrink from ${String(current['disk'])}g`)] : []),
  ]
}

/** Plans the deletion of guests that have the tag of the set, but are not in the file. */
function planSurplus(
  { set, sections, items }: WantedState,
  present: Present,
  isPruned: boolean,
): { deletions: Deletion[]; notes: string[] } {
  const named = new Set(items.map(keyOf))
  const isOwn = ({ fields, status }: CurrentItem): boolean =>
    ((fields['tags'] ?? []) as string[]).includes(markOf(set)) && status !== 'deleting'
  const surplus = sections.has('guests') ? present.items.filter((item) => isOwn(item) && !named.has(keyOf(item))) : []
  const isProtected = ({ fields }: CurrentItem): boolean => fields['delete_protected'] === true
  const deleted = isPruned ? surplus.filter((item) => !isProtected(item)) : []
  const noteOf = (item: CurrentItem): string =>
    isPruned
      ? `guest ${item.name} is protected from deletion and stays`
      : `guest ${item.name} is no longer in the file; --prune deletes it`
  return {
    deletions: deleted.map((current) => ({ action: 'delete', current })),
    notes: surplus.filter((item) => !deleted.includes(item)).map(noteOf),
  }
}
