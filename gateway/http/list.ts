import { Type, type Static, type TObject, type TOptional, type TProperties, type TSchema } from 'typebox'
import { invalidField } from '../../shared/errors.js'
import { selectFrom, type Fields, type ListQuery } from '../lists/query.js'
import { filterTexts } from './filter-texts.js'
import type { Answer } from './route.js'

/*
 * Query parameters of all lists: `page`, `page_size`, `sort`, and filters that compare fields. Without parameters the
 * complete list is returned.
 */

const defaultPageSize = 50

const pageProperties = {
  page: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Number of the page to return. The first page is 1.' }),
  ),
  page_size: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1000,
      description: `Number of rows per page. Default: ${defaultPageSize} if \`page\` is sent. Without \`page\` and \`page_size\`, all rows are returned.`,
    }),
  ),
  sort: Type.Optional(
    Type.String({
      maxLength: 200,
      description:
        'Names of the fields by which the rows are sorted, separated by commas. A leading "-" sorts in descending order.',
    }),
  ),
}

type PageQuery = Static<TObject<typeof pageProperties>>

/** Creates the query schema of a list. @param filters schemas by name of the field to compare; all become optional */
export function listQuery<F extends TProperties>(
  filters: F,
): TObject<typeof pageProperties & { [K in keyof F]: TOptional<F[K]> }> {
  const optional = Object.entries(filters).map(([name, schema]) => [name, Type.Optional(withText(name, schema))])
  return Type.Object({ ...pageProperties, ...Object.fromEntries(optional) }) as never
}

/** Adds a description to a filter that has none. */
function withText(name: string, schema: TSchema): TSchema {
  const description = filterTexts[name]
  return 'description' in schema || description === undefined ? schema : { ...schema, description }
}

type ListParameters = PageQuery & Readonly<Record<string, unknown>>

interface ListOptions<Name extends string> {
  readonly sortable: readonly Name[]
  readonly filters?: readonly Name[]
}

/** @throws {BerthError} `invalid_field` if `sort` contains another field */
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
 * Answers with a list of few rows. `X-Total-Count` is the number of filtered rows on all pages.
 * @throws {BerthError} `invalid_field` if `sort` contains another field
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

/** True if the request has no parameters, and therefore requests the complete list. */
export function wantsWholeList(query: object): boolean {
  return Object.values(query).every((value) => value === undefined)
}

/** Index of the first row of the requested page, and of the first row after the page. */
export function rangeOf(query: PageQuery): [number, number] {
  const page = readPage(query)
  return page ? [(page.page - 1) * page.size, page.page * page.size] : [0, Infinity]
}

/** Returns number (from 1) and size of the requested page. `undefined`: the complete list is requested. */
export function readPage(query: Pick<PageQuery, 'page' | 'page_size'>): { page: number; size: number } | undefined {
  if (query.page === undefined && query.page_size === undefined) return undefined
  return { page: query.page ?? 1, size: query.page_size ?? defaultPageSize }
}
