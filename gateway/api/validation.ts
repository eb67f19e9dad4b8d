import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { BerthError, invalidField } from '../../shared/errors.js'
import type { Route } from './route.js'

/** Checks one part of a request and fills in the schema's defaults. @throws {BerthError} */
export type Check = (value: Record<string, unknown>) => void

export interface RouteChecks {
  readonly params: Check
  readonly query: Check
  readonly body: Check
}

const options = { useDefaults: true, strict: true, ownProperties: true, allowUnionTypes: true } as const
const bodies = addFormats.default(new Ajv2020(options))
/** What comes in a URL is text: numbers and booleans are read from it. */
const texts = addFormats.default(new Ajv2020({ ...options, coerceTypes: true }))

const accept: Check = () => undefined

export function compileChecks(route: Route): RouteChecks {
  return {
    params: route.params ? check(texts.compile(route.params), 'path') : accept,
    query: route.query ? check(texts.compile(route.query), 'query') : accept,
    body: route.body ? check(bodies.compile(route.body), 'body') : accept,
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

function check(validate: ValidateFunction, part: 'path' | 'query' | 'body'): Check {
  return (value) => {
    if (!validate(value)) throw problemOf(validate.errors?.[0], part)
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
