import { printable } from '../output/width.js'
import type { Field, Fields, Kind } from './kinds.js'
import type { Change, Plan } from './plan-changes.js'

/* Texts and JSON that describe the difference between a file and the fleet. */

/** One field of a change, with values as in a fleet file. */
interface FieldDifference {
  readonly field: string
  readonly before?: unknown
  readonly after?: unknown
  readonly removed?: readonly string[]
  readonly added?: readonly string[]
}

/** Returns the changes as objects for programs. */
export function differenceRows(changes: readonly Change[]): object[] {
  return changes.map((change) => ({ action: change.action, ...subjectOf(change), fields: fieldsOf(change) }))
}

function subjectOf(change: Change): { kind: string; name: string } {
  const { kind, name } = change.action === 'delete' ? change.current : change.wanted
  return { kind: kind.noun, name }
}

/** Returns the text for an object, such as `guest web1`. */
export function titleOf(change: Change): string {
  const { kind, name } = subjectOf(change)
  return [kind, name].filter(Boolean).join(' ')
}

function fieldsOf(change: Change): FieldDifference[] {
  if (change.action === 'delete') return []
  if (change.action === 'create') return differencesIn(change.wanted.kind, change.wanted.fields, {})
  return differencesIn(change.wanted.kind, change.fields, change.current.fields)
}

function differencesIn({ fields }: Kind, wanted: Fields, current: Fields): FieldDifference[] {
  return fields
    .filter(({ name }) => wanted[name] !== undefined)
    .map((field) => fieldDifference(field, wanted[field.name], current[field.name]))
}

function fieldDifference({ name, form }: Field, wanted: unknown, current: unknown): FieldDifference {
  if (form.parts) return { field: name, ...form.parts(wanted, current) }
  const written = (value: unknown): unknown => {
    if (form.describe) return form.describe(value)
    return form.write ? form.write(value) : value
  }
  return { field: name, ...(current !== undefined && { before: written(current) }), after: written(wanted) }
}

const signs = { create: '+', change: '~', delete: '-' } as const

/** Returns the difference as lines for a terminal. */
export function differenceLines({ changes, unfinished, notes }: Plan): string[] {
  return [
    ...changes.flatMap((change) => [`${signs[change.action]} ${titleOf(change)}`, ...fieldsOf(change).flatMap(lines)]),
    ...unfinished.map(({ name }) => `… guest ${name} is still being created`),
    ...notes.map((note) => `note: ${note}`),
  ].map(printable)
}

function lines({ field, before, after, removed, added }: FieldDifference): string[] {
  if (added === undefined)
    return [`    ${field}: ${before === undefined ? '' : `${valueText(before)} → `}${valueText(after)}`]
  return [
    `    ${field}:${added.length + (removed?.length ?? 0) === 0 ? ' none' : ''}`,
    ...(removed ?? []).map((line) => `      - ${line}`),
    ...added.map((line) => `      + ${line}`),
  ]
}

function valueText(value: unknown): string {
  if (value === '' || (Array.isArray(value) && value.length === 0)) return 'none'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Returns a sentence with the numbers of changes, such as `2 to create, 1 to delete`. */
export function countsText(changes: readonly Change[]): string {
  const count = (action: Change['action']): number => changes.filter((change) => change.action === action).length
  const words = (['create', 'change', 'delete'] as const).filter((action) => count(action) > 0)
  return words.map((action) => `${count(action)} to ${action}`).join(', ')
}
