import type { TSchema } from 'typebox'
import { Type } from 'typebox'
import { failuresOf } from './failures.js'
import { documentedHeaders, failureHeaders, hasEtag, successHeaders } from './openapi-headers.js'
import { SharedSchemas, type Json } from './openapi-schema.js'
import { isRepeatable, type Route } from './route.js'
import { envelopeSchema, ErrorSchema } from './schema.js'
import { orderRoutes } from './table.js'

export interface OpenApiOptions {
  /** Version of the product. */
  readonly version: string
  /** What each tag's endpoints are for. */
  readonly tags: Readonly<Record<string, string>>
}

/** Builds the OpenAPI 3.1 document of the table. @throws {Error} for a tag without a text */
export function buildOpenApi(routes: readonly Route[], { version, tags }: OpenApiOptions): Json {
  const schemas = new SharedSchemas()
  schemas.refer(ErrorSchema)
  const paths: Record<string, Json> = {}
  for (const route of orderRoutes(routes))
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(route, schemas)
  return {
    openapi: '3.1.0',
    info: { title: 'Berth', version, description: introduction, license: { name: 'Proprietary' } },
    servers: [{ url: '/api/v1' }, { url: '/api', description: 'The same, for older clients' }],
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
            'Of `POST /login`; `__Host-berth` under TLS. Changes also need `X-Berth-CSRF`, with the value of ' +
            '`GET /session`, and an `Origin` that is this server.',
        },
      },
      headers: documentedHeaders,
      schemas: schemas.all,
    },
  }
}

const introduction = [
  'Every answer is an envelope: `success`, `message`, `data`; a failure has `code` (stable) and `request_id`.',
  'Lists come whole unless `page` or `page_size` is sent; `X-Total-Count` has the number of rows.',
  'Reads carry an `ETag`. POST takes an `Idempotency-Key`: the same key and body replay the first answer, unless ' +
    'that was 404, 409, 412, 429 or 5xx: then the repeat runs.',
  'Changes of a container take `If-Match` with the `ETag` of its detail: what was changed meanwhile is 412.',
  '`RateLimit-Limit`, `-Remaining` and `-Reset` tell what a key may still send; beyond it is 429 with `Retry-After`.',
  'Types are shown as they should be sent. Numbers and booleans are taken as text too, words in any case, `null` and ' +
    'empty text in optional fields as absent; in fields that restrict they never widen. Unknown fields are ignored.',
].join('\n\n')

function tagOf(name: string, tags: OpenApiOptions['tags']): Json {
  const description = tags[name]
  if (description === undefined) throw new Error(`the tag ${name} has no text`)
  return { name, description }
}

/** Who may call, where that takes no right. */
const callers: Readonly<Record<string, string>> = {
  any: 'Any valid caller.',
  session: 'Whoever has logged in; no key.',
  public: 'Anybody.',
}

function operationOf(route: Route, schemas: SharedSchemas): Json {
  const scope = callers[route.scope] ?? `Needs scope \`${route.scope}\`.`
  const bound = route.bound === 'refused' ? ' Not for keys that are bound to containers.' : ''
  return {
    operationId: route.name,
    summary: route.summary,
    description: scope + bound,
    tags: [route.tag],
    ...(route.scope === 'public' ? { security: [] } : {}),
    ...(route.scope === 'session' ? { security: [{ session: [] }] } : {}),
    parameters: [
      ...pathParameters(route, schemas),
      ...queryParameters(route, schemas),
      ...headerParameters(route),
    ],
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
  return `Of ${sortable.map((field) => `\`${field}\``).join(', ')}; \`-\` before a name sorts from high to low.`
}

function headerParameters(route: Route): Json[] {
  const names = [
    ...(isRepeatable(route) ? ['Idempotency-Key'] : []),
    ...(route.conditional ? ['If-Match'] : []),
  ]
  const schema = { type: 'string', minLength: 1, maxLength: 255 }
  return names.map((name) => ({ name, in: 'header', required: false, schema }))
}

function requestBodyOf(route: Route, schemas: SharedSchemas): Json {
  if (!route.body) return {}
  const content = { 'application/json': { schema: schemas.refer(route.body), example: route.example } }
  return { requestBody: { required: !(route.bodyOptional ?? false), content } }
}

function responsesOf(route: Route, schemas: SharedSchemas): Json {
  const statuses = route.statuses ?? [200]
  const success = statuses.map((status) => [String(status), successOf(route, schemas)])
  const failures = [...failuresOf(route)].map(([status, codes]) => [String(status), failureOf(status, codes)])
  const unchanged = hasEtag(route) ? [['304', unchangedSince(route)]] : []
  return Object.fromEntries([...success, ...unchanged, ...failures]) as Json
}

function unchangedSince(route: Route): Json {
  return { description: 'Not changed since `If-None-Match`', headers: successHeaders(route) }
}

function successOf(route: Route, schemas: SharedSchemas): Json {
  const { summary: description, produces } = route
  if (produces !== undefined) {
    const schema = produces === 'image/png' ? { type: 'string', format: 'binary' } : { type: 'string' }
    return { description, headers: successHeaders(route), content: { [produces]: { schema } } }
  }
  const schema = schemas.refer(envelopeSchema(route.data, route.more))
  return {
    description: route.summary,
    headers: successHeaders(route),
    content: { 'application/json': { schema } },
  }
}

/** `x-codes` lists the codes for programs. */
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
