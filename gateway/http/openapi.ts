import type { TSchema } from 'typebox'
import { Type } from 'typebox'
import { failuresOf } from './failures.js'
import { documentedHeaders, failureHeaders, hasEtag, successHeaders } from './openapi-headers.js'
import { SharedSchemas, type Json } from './openapi-schema.js'
import { isForSessions, isRepeatable, type Route } from './route.js'
import { envelopeSchema, ErrorSchema } from './schema.js'
import { orderRoutes } from './table.js'

export interface OpenApiOptions {
  readonly version: string
  readonly tags: Readonly<Record<string, string>>
}

/** Builds the OpenAPI 3.1 document of the routes. @throws {Error} if a tag has no description */
export function buildOpenApi(routes: readonly Route[], { version, tags }: OpenApiOptions): Json {
  const schemas = new SharedSchemas()
  schemas.refer(ErrorSchema)
  const paths: Record<string, Json> = {}
  for (const route of orderRoutes(routes))
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(route, schemas)
  return {
    openapi: '3.1.0',
    info: { title: 'Berth', version, description: introduction, license: { name: 'Proprietary' } },
    servers: [{ url: '/api/v1' }, { url: '/api', description: 'Same API, for older clients' }],
    security: [{ apiKey: [] }, { bearer: [] }, { session: [] }],
    tags: [...new Set(routes.map(({ tag }) => tag))].sort().map((name) => tagOf(name, tags)),
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        bearer: { type: 'http', scheme: 'bearer' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'berth',
          description:
            'Cookie that `POST /login` sets. Under TLS its name is `__Host-berth`. Requests that change something also need the header `X-Berth-CSRF`, with the CSRF token from `GET /session`, and an `Origin` header with the origin of this server.',
        },
      },
      headers: documentedHeaders,
      schemas: schemas.all,
    },
  }
}

const introduction = [
  'Every answer is an envelope with `success`, `message` and `data`. Errors also have a stable `code` and a `request_id`.',
  'Lists are complete unless `page` or `page_size` is sent. `X-Total-Count` contains the number of rows.',
  'Answers to GET have an `ETag`. POST accepts an `Idempotency-Key`: a repeated request with the same key and body gets the first answer again. After 404, 409, 412, 429 or 5xx the repeated request is carried out instead.',
  'Changes of a container accept `If-Match` with the `ETag` of the container. If it was changed in the meantime, the answer is 412.',
  '`RateLimit-Limit`, `-Remaining` and `-Reset` show how many requests a key can still send. Further requests are answered with 429 and `Retry-After`.',
  'The documented types are the preferred ones. Numbers and booleans are also accepted as text, and fixed words in upper or lower case. In optional fields `null` and empty text count as omitted, except in fields that restrict rights, where they never extend rights. Unknown fields are ignored.',
].join('\n\n')

function tagOf(name: string, tags: OpenApiOptions['tags']): Json {
  const description = tags[name]
  if (description === undefined) throw new Error(`the tag ${name} has no description`)
  return { name, description }
}

/** Sentences for values of `Route.scope` that name a kind of caller instead of a scope. */
const callers: Readonly<Record<string, string>> = {
  any: 'Available to any valid caller.',
  session: 'Available to logged-in accounts, not to API keys.',
  public: 'Available to everyone, without authentication.',
}

function operationOf(route: Route, schemas: SharedSchemas): Json {
  const scope = callers[route.scope] ?? `Needs the scope \`${route.scope}\`.`
  const bound = route.bound === 'refused' ? ' Not available for keys that are bound to containers.' : ''
  return {
    operationId: route.name,
    summary: route.summary,
    description: scope + bound,
    tags: [route.tag],
    ...(route.scope === 'public' ? { security: [] } : {}),
    ...(isForSessions(route) ? { security: [{ session: [] }] } : {}),
    parameters: [...pathParameters(route, schemas), ...queryParameters(route, schemas), ...headerParameters(route)],
    ...requestBodyOf(route, schemas),
    responses: responsesOf(route, schemas),
  }
}

function pathParameters(route: Route, schemas: SharedSchemas): Json[] {
  const properties = propertiesOf(route.params)
  return [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: schemas.refer(properties[name] ?? Type.String()),
  }))
}

function queryParameters(route: Route, schemas: SharedSchemas): Json[] {
  const { required = [] }: { required?: string[] } = route.query ?? {}
  return Object.entries(propertiesOf(route.query)).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: schemas.refer(schema),
    ...(name === 'sort' && route.sortable ? { description: sortText(route.sortable) } : {}),
  }))
}

function sortText(sortable: readonly string[]): string {
  return `Fields: ${sortable.map((field) => `\`${field}\``).join(', ')}. \`-\` before a name sorts in descending order.`
}

function headerParameters(route: Route): Json[] {
  const names = [...(isRepeatable(route) ? ['Idempotency-Key'] : []), ...(route.conditional ? ['If-Match'] : [])]
  const schema = { type: 'string', minLength: 1, maxLength: 255 }
  return names.map((name) => ({ name, in: 'header', required: false, schema }))
}

function requestBodyOf(route: Route, schemas: SharedSchemas): Json {
  if (route.uploads) return uploadOf(route.uploads)
  if (!route.body) return {}
  const content = { 'application/json': { schema: schemas.refer(route.body), example: route.example } }
  return { requestBody: { required: !(route.bodyOptional ?? false), content } }
}

function uploadOf(types: readonly string[]): Json {
  const schema = { type: 'string', format: 'binary' }
  return { requestBody: { required: true, content: Object.fromEntries(types.map((type) => [type, { schema }])) } }
}

function responsesOf(route: Route, schemas: SharedSchemas): Json {
  const statuses = route.statuses ?? [200]
  const success = statuses.map((status) => [String(status), successOf(route, schemas)])
  const failures = [...failuresOf(route)].map(([status, codes]) => [String(status), failureOf(status, codes)])
  const unchanged = hasEtag(route) ? [['304', unchangedSince(route)]] : []
  return Object.fromEntries([...success, ...unchanged, ...failures]) as Json
}

function unchangedSince(route: Route): Json {
  return {
    description: 'Not modified: the data still has the version in `If-None-Match`',
    headers: successHeaders(route),
  }
}

function successOf(route: Route, schemas: SharedSchemas): Json {
  const { summary: description, produces } = route
  if (produces !== undefined) {
    const isBinary = produces === 'image/png' || produces === 'application/octet-stream'
    const schema = isBinary ? { type: 'string', format: 'binary' } : { type: 'string' }
    return { description, headers: successHeaders(route), content: { [produces]: { schema } } }
  }
  const schema = schemas.refer(envelopeSchema(route.data, route.more))
  return {
    description: route.summary,
    headers: successHeaders(route),
    content: { 'application/json': { schema } },
  }
}

/** Describes a failure. The extension `x-codes` lists its error codes for programs. */
function failureOf(status: number, codes: readonly string[]): Json {
  const schema = { $ref: '#/components/schemas/Error' }
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    headers: failureHeaders(status),
    content: { 'application/json': { schema } },
    'x-codes': codes,
  }
}

function propertiesOf(schema: TSchema | undefined): Record<string, TSchema> {
  const { properties = {} }: { properties?: Record<string, TSchema> } = schema ?? {}
  return properties
}
