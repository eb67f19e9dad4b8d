import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { TSchema } from 'typebox'
import { BerthError, invalidField } from '../../shared/errors.js'
import type { Route } from './route.js'

/** Checks one part of a request and fills in the schema's defaults. @throws {BerthError} */
export type Check = (value: Record<string, unknown>) => void

export interface RouteChecks {
  readonly params: Check
  readonly query: Check
  readonly body: Check
}

const schemas = addFormats.default(
  new Ajv2020({ useDefaults: true, strict: true, ownProperties: true, allowUnionTypes: true }),
)

const accept: Check = () => undefined

export function compileChecks(route: Route): RouteChecks {
  return {
    params: route.params ? checkText(route.params, 'path') : accept,
    query: route.query ? checkText(route.query, 'query') : accept,
    body: route.body ? check(route.body, 'body') : accept,
  }
}

/**
 * A URL's query. Empty values count as absent.
 * @throws {BerthError} `invalid_field` for a parameter that comes twice
 */
export function parseQuery(text: string): Record<string, string> {
  const query = Object.create(null) as Record<string, string>
  if (text === '') return query
  for (const [name, value] of new URLSearchParams(text)) {
    if (name in query) throw invalidField(fieldName(name), 'a query parameter may come only once')
    if (value !== '') query[name] = value
  }
  return query
}

function check(schema: TSchema, part: 'path' | 'query' | 'body'): Check {
  const validate = schemas.compile(schema)
  return (value) => {
    if (!validate(value)) throw problemOf(validate.errors?.[0], part)
  }
}

/** What a URL's text means for a type; as it is where it means nothing, and the check refuses it. */
const meanings: Readonly<Record<string, (text: string) => unknown>> = {
  integer: (text) => (/^-?(0|[1-9]\d*)$/.test(text) ? Number(text) : text), // to Number() a blank is 0, 0x1 is 1
  boolean: (text) => (text === 'true' || text === 'false' ? text === 'true' : text),
}

function checkText(schema: TSchema, part: 'path' | 'query'): Check {
  const checkTyped = check(schema, part)
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> }
  const readers = Object.entries(properties).flatMap(([name, { type = '' }]) => {
    const read = meanings[type]
    return read ? [{ name, read }] : []
  })
  return (value) => {
    for (const { name, read } of readers) if (name in value) value[name] = read(String(value[name]))
    checkTyped(value)
  }
}

function problemOf(error: ErrorObject | undefined, part: string): BerthError {
  const at = (error?.instancePath ?? '').slice(1).replaceAll('/', '.')
  if (error?.keyword === 'required') {
    const field = [at, String(error.params['missingProperty'])].filter(Boolean).join('.')
    return new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
  }
  // A value that identifies nothing cannot be found.
  if (part === 'path') return new BerthError('not_found', 'not_found', 'not found')
  const field = fieldName(at || part)
  return invalidField(field, `${field}: ${reasonOf(error)}`)
}

function reasonOf(error: ErrorObject | undefined): string {
  if (error?.keyword === 'enum')
    return `must be one of ${(error.params['allowedValues'] as unknown[]).join(', ')}`
  return error?.message ?? 'is invalid'
}

/** Names come from the client where objects have free keys: keep them short and printable. */
function fieldName(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?').slice(0, 100)
}
