import { Type, type Static, type TObject, type TOptional, type TProperties, type TSchema } from 'typebox'
import { invalidField } from '../../shared/errors.js'
import { selectFrom, type Fields, type ListQuery } from '../lists/query.js'
import type { Answer } from './route.js'

/*
 * Parameters of every list: `page`, `page_size`, `sort`, and filters for equality of a field. Without any of them the
 * whole list is returned.
 */

const defaultPageSize = 50

const pageProperties = {
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Number of the page, from 1.' })),
  page_size: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1000,
      description: `Rows per page. Default: ${defaultPageSize} if \`page\` is sent.`,
    }),
  ),
  sort: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Field names, separated by commas. A leading "-" sorts in descending order.',
    }),
  ),
}

type PageQuery = Static<TObject<typeof pageProperties>>

/**
 * Query schema of a list.
 * @param filters by field name; each becomes optional and compares that field of a row
 */
export function listQuery<F extends TProperties>(
  filters: F,
): TObject<typeof pageProperties & { [K in keyof F]: TOptional<F[K]> }> {
  const optional = Object.entries(filters).map(([name, schema]: [string, TSchema]) => [name, Type.Optional(schema)])
  return Type.Object({ ...pageProperties, ...Object.fromEntries(optional) }) as never
}

type ListParameters = PageQuery & Readonly<Record<string, unknown>>

interface ListOptions<Name extends string> {
  /** Fields that `sort` may name. */
  readonly sortable: readonly Name[]
  readonly filters?: readonly Name[]
}

/** @throws {BerthError} `invalid_field` for a `sort` by other fields */
export function parseListQuery<Name extends string>(
  query: ListParameters,
  { sortable, filters = [] }: ListOptions<Name>,
): ListQuery<Name> {
  const active = filters.filter((field) => query[field] !== undefined)
  return {
    filters: active.map((field) => ({ field, value: String(query[field]) })),
    sort: query.sort === undefined ? [] : query.sort.split(',').map((part) => parseSort(part, sortable)),
  }
}

function parseSort<Name extends string>(part: string, sortable: readonly Name[]) {
  const field = sortable.find((name) => name === part.replace(/^-/, ''))
  if (field === undefined)
    throw invalidField('sort', `sort: must contain only ${sortable.join(', ')}, with "-" for descending order`)
  return { field, descending: part.startsWith('-') }
}

/**
 * Answers a list request from few rows, with `X-Total-Count` (of the filtered rows, before paging).
 * @throws {BerthError} `invalid_field` for a `sort` by other fields
 */
export function listAnswer<Row extends object>(
  rows: readonly Row[],
  query: ListParameters,
  options: ListOptions<keyof Row & string>,
): Answer<Row[]> {
  const names = [...options.sortable, ...(options.filters ?? [])]
  const fields = Object.fromEntries(names.map((name) => [name, (row: Row) => row[name]]))
  const found = selectFrom(rows, fields as unknown as Fields<Row, keyof Row & string>, parseListQuery(query, options))
  return { data: found.slice(...rangeOf(query)), headers: countHeader(found.length) }
}

export function countHeader(total: number): { 'X-Total-Count': string } {
  return { 'X-Total-Count': String(total) }
}

/** True if the request asks for the plain, whole list. */
export function wantsWholeList(query: object): boolean {
  return Object.values(query).every((value) => value === undefined)
}

/** Ranks of the requested page's first row, and of the row after its last. */
export function rangeOf(query: PageQuery): [number, number] {
  const page = readPage(query)
  return page ? [(page.page - 1) * page.size, page.page * page.size] : [0, Infinity]
}

/** The requested page, from 1; `undefined`: the whole list. */
export function readPage(query: Pick<PageQuery, 'page' | 'page_size'>): { page: number; size: number } | undefined {
  if (query.page === undefined && query.page_size === undefined) return undefined
  return { page: query.page ?? 1, size: query.page_size ?? defaultPageSize }
}
