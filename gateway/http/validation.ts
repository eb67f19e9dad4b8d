import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { TSchema } from 'typebox'
import { invalidField } from '../../shared/errors.js'
import { compileNormalizer, ownKeywords } from './normalize.js'
import { fieldName, refusalOf, type RequestPart } from './refusal.js'
import type { Route } from './route.js'

/** Checks a part of a request. Returns it normalized, with default values. @throws {BerthError} if it is invalid */
export type Check = (value: Record<string, unknown>) => Record<string, unknown>

export interface RouteChecks {
  readonly params: Check
  readonly query: Check
  readonly body: Check
}

/**
 * The schemas of routes and of configurations are not validated, because this would take 50 ms at the first request.
 * The generated code is not optimized, because this would take a third of the time of the first request.
 */
const schemas = addFormats.default(
  new Ajv2020({
    useDefaults: true,
    strict: true,
    ownProperties: true,
    allowUnionTypes: true,
    verbose: true,
    validateSchema: false,
    code: { optimize: false },
  }),
)
schemas.addVocabulary([...ownKeywords])

const accept: Check = (value) => value

/**
 * Converts a route's schemas to checks of path, query and body. Each check is compiled at its first use, because
 * compiling all of them would delay the start by half a second.
 */
export function compileChecks(route: Route): RouteChecks {
  const check = (schema: TSchema | undefined, part: RequestPart): Check =>
    schema ? compileCheck(schema, route, part) : accept
  return {
    params: check(route.params, 'path'),
    query: check(route.query, 'query'),
    body: check(route.body, 'body'),
  }
}

function compileCheck(schema: TSchema, { method, example }: Route, part: RequestPart): Check {
  const normalize = compileNormalizer(schema, { creates: method === 'POST', isPath: part === 'path' })
  let validate: ValidateFunction | undefined
  return (sent) => {
    const value = normalize(sent)
    validate ??= schemas.compile(schema)
    if (!validate(value)) throw refusalOf(validate.errors?.[0], part, part === 'body' ? example : undefined)
    return value
  }
}

/** Parses a URL's query. Empty values count as absent. @throws {BerthError} `invalid_field` for a repeated parameter */
export function parseQuery(text: string): Record<string, string> {
  const query = Object.create(null) as Record<string, string>
  if (text === '') return query
  for (const [name, value] of new URLSearchParams(text)) {
    if (name in query) throw invalidField(fieldName(name), 'a query parameter must not be repeated')
    if (value !== '') query[name] = value
  }
  return query
}
