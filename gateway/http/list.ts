import { Type, type Static, type TObject, type TOptional, type TProperties, type TSchema } from 'typebox'
import { invalidField } from '../../shared/errors.js'
import type { Answer } from './route.js'

/*
 * What every list understands: `page`, `page_size`, `sort` and filters that compare a field for equality.
 * Without any of them the whole list comes.
 */

const defaultPageSize = 50

const pageProperties = {
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'From 1.' })),
  page_size: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: `Default ${defaultPageSize} when page is sent.` }),
  ),
  sort: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Field names, comma-separated; a leading "-" sorts from high to low.',
    }),
  ),
}

type PageQuery = Static<TObject<typeof pageProperties>>

/**
 * Query schema of a list.
 * @param filters by field name; each is made optional and compares that field of a row
 */
export function listQuery<F extends TProperties>(
  filters: F,
): TObject<typeof pageProperties & { [K in keyof F]: TOptional<F[K]> }> {
  const optional = Object.entries(filters).map(([name, schema]: [string, TSchema]) => [
    name,
    Type.Optional(schema),
  ])
  return Type.Object({ ...pageProperties, ...Object.fromEntries(optional) }) as never
}

/**
 * The rows a list request asks for, with `X-Total-Count` (of the filtered rows, before paging).
 * @param sortable fields that `sort` may name
 * @throws {BerthError} `invalid_field` for a `sort` outside them
 */
export function listAnswer<Row extends object>(
  rows: readonly Row[],
  query: PageQuery & Readonly<Record<string, unknown>>,
  options: { sortable: readonly (keyof Row & string)[]; filters?: readonly (keyof Row & string)[] },
): Answer<Row[]> {
  const wanted = filterRows(rows, query, options.filters ?? [])
  const sorted = query.sort === undefined ? wanted : sortRows(wanted, query.sort, options.sortable)
  return { data: pageOf(sorted, query), headers: { 'X-Total-Count': String(wanted.length) } }
}

/** True when the request asks for the plain, whole list. */
export function wantsWholeList(query: object): boolean {
  return Object.values(query).every((value) => value === undefined)
}

function filterRows<Row extends object>(
  rows: readonly Row[],
  query: Readonly<Record<string, unknown>>,
  fields: readonly (keyof Row & string)[],
): Row[] {
  const active = fields.filter((field) => query[field] !== undefined)
  return rows.filter((row) => active.every((field) => String(row[field]) === String(query[field])))
}

function sortRows<Row extends object>(
  rows: Row[],
  sort: string,
  sortable: readonly (keyof Row & string)[],
): Row[] {
  const keys = sort.split(',').map((part) => {
    const field = sortable.find((name) => name === part.replace(/^-/, ''))
    if (field === undefined)
      throw invalidField('sort', `sort: must be of ${sortable.join(', ')}, with "-" for descending`)
    return { field, sign: part.startsWith('-') ? -1 : 1 }
  })
  return rows.toSorted((a, b) => {
    for (const { field, sign } of keys) {
      const order = compareValues(a[field], b[field])
      if (order !== 0) return order * sign
    }
    return 0
  })
}

function compareValues(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const [x, y] = [String(a), String(b)]
  return x < y ? -1 : x > y ? 1 : 0
}

/** The page a request asks for, from 1; `undefined`: the whole list. */
export function readPage(
  query: Pick<PageQuery, 'page' | 'page_size'>,
): { page: number; size: number } | undefined {
  if (query.page === undefined && query.page_size === undefined) return undefined
  return { page: query.page ?? 1, size: query.page_size ?? defaultPageSize }
}

function pageOf<Row>(rows: Row[], query: PageQuery): Row[] {
  const page = readPage(query)
  return page ? rows.slice((page.page - 1) * page.size, page.page * page.size) : rows
}
