import { parseColumns, type ColumnName } from './columns.ts'
import { noFilter, sortableKeys, type GuestFilter, type Sorting } from './filter.ts'

/** Columns, filters and order of the guest list. */
export interface ViewContent {
  readonly columns: readonly ColumnName[]
  readonly filter: GuestFilter
  readonly sorting: Sorting
}
/** A view that the user stored under a name. */
export interface GuestView extends ViewContent {
  readonly name: string
}

/** Maximum number of views in a browser. */
export const maxViews = 20

type Stored = Partial<Record<'name' | 'columns' | 'filter' | 'sorting', unknown>>
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** Parses the stored views. Unknown columns, filters and orders of other versions are ignored. */
export function parseViews(stored: string | null): GuestView[] {
  const list = parseList(stored ?? '[]')
  return list.flatMap((one) => (isObject(one) ? parseView(one) : [])).slice(0, maxViews)
}

function parseList(stored: string): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(stored)
    return Array.isArray(list) ? list : []
  } catch {
    return []
  }
}

function parseView({ name, columns, filter, sorting }: Stored): GuestView[] {
  if (typeof name !== 'string' || name === '') return []
  const names = Array.isArray(columns) ? (parseColumns(columns.join(',')) ?? []) : []
  return [{ name, columns: names, filter: parseFilter(filter), sorting: parseSorting(sorting) }]
}

function parseFilter(filter: unknown): GuestFilter {
  if (!isObject(filter)) return noFilter
  const known = Object.keys(noFilter).filter((field) => typeof filter[field] === 'string')
  return { ...noFilter, ...Object.fromEntries(known.map((field) => [field, filter[field]])) }
}

function parseSorting(sorting: unknown): Sorting {
  const { key, descending } = isObject(sorting) ? sorting : {}
  return { key: sortableKeys.find((one) => one === key) ?? 'name', descending: descending === true }
}

/** Adds a view. It replaces the view with the same name. The names are sorted. */
export function withView(views: readonly GuestView[], added: GuestView): GuestView[] {
  const others = views.filter(({ name }) => name !== added.name)
  return [...others, added].sort((a, b) => a.name.localeCompare(b.name))
}

/** True if two views show the same. */
export function isSameView(a: ViewContent, b: ViewContent): boolean {
  return textOf(a) === textOf(b)
}

function textOf({ columns, filter, sorting: { key, descending } }: ViewContent): string {
  const fields = Object.keys(noFilter) as (keyof GuestFilter)[]
  return JSON.stringify([columns, fields.map((field) => filter[field]), key, descending])
}
