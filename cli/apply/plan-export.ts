import type { Fields, Kind } from './kinds.js'
import { defaultSet, isMark } from './marks.js'
import { kinds, nameKey } from './kinds.js'
import type { CurrentItem } from './plan-current.js'

/* This module converts the state of a fleet to a fleet file. */

export interface FleetExport {
  /** Content of the file: sections by their names. */
  readonly content: Readonly<Record<string, unknown>>
  /** Sentences about objects that a file cannot contain. */
  readonly notes: readonly string[]
}

/** @param set name of the file's set. When the file is applied, guests with the tag of this set keep the tag. */
export function planExport(items: readonly CurrentItem[], set: string): FleetExport {
  const isDouble = (item: CurrentItem): boolean =>
    items.some((other) => other !== item && other.kind === item.kind && sameName(other, item))
  const sections = kinds.flatMap((kind): [string, unknown][] => {
    const own = items.filter((item) => item.kind === kind && !isDouble(item))
    if (kind.nameField !== undefined) return [[kind.section, own.map(written)]]
    return own.map((item) => [kind.section, written(item)])
  })
  const doubles = items.filter(isDouble)
  return {
    content: Object.fromEntries([...(set === defaultSet ? [] : [['set', set]]), ...sections]) as FleetExport['content'],
    notes: doubles.map(({ kind, name, id }) => `${kind.noun} ${id} is left out: another one has the name ${name}`),
  }
}

const sameName = (a: CurrentItem, b: CurrentItem): boolean => nameKey(a.kind, a.name) === nameKey(b.kind, b.name)

function written({ kind, name, fields }: CurrentItem): Fields {
  const named = kind.nameField === undefined ? {} : { name }
  return { ...named, ...writtenFields(kind, withoutMarks(fields)) }
}

function withoutMarks(fields: Fields): Fields {
  const { tags } = fields as { tags?: readonly string[] }
  return tags === undefined ? fields : { ...fields, tags: tags.filter((tag) => !isMark(tag)) }
}

function writtenFields(kind: Kind, fields: Fields): Fields {
  const known = kind.fields.filter(({ name }) => fields[name] !== undefined)
  const values = known.map(({ name, form }) => [name, form.write ? form.write(fields[name]) : fields[name]] as const)
  return Object.fromEntries(values)
}
