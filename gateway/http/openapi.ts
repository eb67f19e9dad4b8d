import type { TSchema } from 'typebox'
import { Type } from 'typebox'
import type { Route } from './route.js'
import { envelopeSchema, ErrorSchema } from './schema.js'
import { orderRoutes } from './table.js'

type Json = Record<string, unknown>

/** The OpenAPI 3.1 document of the table. @param version of the product */
export function buildOpenApi(routes: readonly Route[], version: string): Json {
  const paths: Record<string, Json> = {}
  for (const route of orderRoutes(routes))
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(route)
  return {
    openapi: '3.1.0',
    info: { title: 'Berth', version, description: introduction, license: { name: 'Proprietary' } },
    servers: [{ url: '/api/v1' }, { url: '/api', description: 'The same, for older clients' }],
    security: [{ apiKey: [] }, { bearer: [] }],
    tags: [...new Set(routes.map((route) => route.tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        bearer: { type: 'http', scheme: 'bearer' },
      },
      schemas: { Error: plain(ErrorSchema) },
      headers: responseHeaders,
    },
  }
}

const introduction = [
  'Every answer is an envelope: `success`, `message`, `data`; a failure has `code` (stable) and `request_id`.',
  'Lists come whole unless `page` or `page_size` is sent; `X-Total-Count` has the number of rows.',
  'Reads carry an `ETag`. POST takes an `Idempotency-Key`: the same key and body replay the first answer.',
  'Changes of a container take `If-Match` with the `ETag` of its detail: what was changed meanwhile is 412.',
  '`RateLimit-Limit`, `-Remaining` and `-Reset` tell what a key may still send; beyond it is 429 with `Retry-After`.',
  'Unknown request fields are ignored; empty query parameters count as absent.',
].join('\n\n')

function operationOf(route: Route): Json {
  const scope = route.scope === 'any' ? 'Any valid key.' : `Needs scope \`${route.scope}\`.`
  const bound = route.bound === 'refused' ? ' Not for keys that are bound to containers.' : ''
  const own = route.errors?.length
    ? ` Also answers ${route.errors.map((code) => `\`${code}\``).join(', ')}.`
    : ''
  return {
    operationId: operationIdOf(route),
    summary: route.summary,
    description: scope + bound + own,
    tags: [route.tag],
    parameters: [...pathParameters(route), ...queryParameters(route), ...headerParameters(route)],
    ...requestBodyOf(route),
    responses: responsesOf(route),
  }
}

function operationIdOf(route: Route): string {
  const words = route.path.split(/[^A-Za-z0-9]+/).filter(Boolean)
  return [route.method.toLowerCase(), ...words].join('_')
}

function pathParameters(route: Route): Json[] {
  const properties = propertiesOf(route.params)
  return [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: plain(properties[name] ?? Type.String()),
  }))
}

function queryParameters(route: Route): Json[] {
  const required = (route.query as { required?: string[] } | undefined)?.required ?? []
  return Object.entries(propertiesOf(route.query)).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: plain(schema),
  }))
}

function headerParameters(route: Route): Json[] {
  const names = [
    ...(route.method === 'POST' ? ['Idempotency-Key'] : []),
    ...(route.conditional ? ['If-Match'] : []),
  ]
  const schema = { type: 'string', minLength: 1, maxLength: 255 }
  return names.map((name) => ({ name, in: 'header', required: false, schema }))
}

function requestBodyOf(route: Route): Json {
  if (!route.body) return {}
  const content = { 'application/json': { schema: plain(route.body) } }
  return { requestBody: { required: !(route.bodyOptional ?? false), content } }
}

function responsesOf(route: Route): Json {
  const success = (route.statuses ?? [200]).map((status) => [String(status), successOf(route)])
  const failures = errorStatuses(route).map(([status, description]) => [
    status,
    { ...failureOf(description), ...headersOfFailure(status) },
  ])
  const unchanged =
    route.method === 'GET' ? [['304', { description: 'Not changed since `If-None-Match`' }]] : []
  return Object.fromEntries([...success, ...unchanged, ...failures]) as Json
}

function successOf(route: Route): Json {
  const schema = plain(envelopeSchema(route.data, route.more))
  return {
    description: route.summary,
    headers: refer(rateHeaders),
    content: { 'application/json': { schema } },
  }
}

function failureOf(description: string): Json {
  const schema = { $ref: '#/components/schemas/Error' }
  return { description, content: { 'application/json': { schema } } }
}

function errorStatuses(route: Route): [string, string][] {
  const reads: [string, string][] = [
    ['400', 'A rule is broken; `details.field` names the field'],
    ['401', 'No valid key: `unauthorized`, `key_disabled`, `key_expired`'],
    ['403', '`insufficient_scope`, `ip_not_allowed`, `policy_blocked`'],
    ['404', '`not_found`; also what the caller may not see'],
    ['429', rateLimitedText],
    ['500', '`internal_error`'],
    ['502', '`agent_error`'],
    ['503', '`store_unavailable`, `host_offline`'],
    ['504', '`agent_timeout`'],
  ]
  const refusal: [string, string] = ['409', 'The state does not allow it']
  if (route.method === 'GET') return canRefuse(route) ? [...reads, refusal] : reads
  return [
    ...reads,
    refusal,
    ['413', '`payload_too_large`'],
    ['415', '`unsupported_media_type`'],
    ['422', '`idempotency_conflict`'],
    ...precondition(route),
  ]
}

const responseHeaders: Json = {
  'RateLimit-Limit': { description: 'Requests a second for this caller', schema: { type: 'integer' } },
  'RateLimit-Remaining': { description: 'Left of them at this moment', schema: { type: 'integer' } },
  'RateLimit-Reset': { description: 'Seconds until all are left again', schema: { type: 'integer' } },
  'Retry-After': { description: 'Seconds after which to come again', schema: { type: 'integer' } },
}
const rateHeaders = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']

function headersOfFailure(status: string): Json {
  if (status === '429') return { headers: refer([...rateHeaders, 'Retry-After']) }
  return status === '503' ? { headers: refer(['Retry-After']) } : {}
}

function refer(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const rateLimitedText =
  '`rate_limited`: more requests, or more of them at once, than a key or an address may send; too many failed ' +
  'authentications from one address; or too many old tasks asked for at once. `Retry-After` says when to come again'

/** A read answers 409 only with a code that its route names. */
function canRefuse(route: Route): boolean {
  return ['address_in_use', 'port_conflict', 'resource_exhausted', 'invalid_state'].some((code) =>
    route.errors?.includes(code),
  )
}

function precondition(route: Route): [string, string][] {
  return route.conditional ? [['412', '`precondition_failed`: changed since `If-Match`']] : []
}

function propertiesOf(schema: TSchema | undefined): Record<string, TSchema> {
  return (schema as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {}
}

/** Without what TypeBox keeps beside the JSON Schema. */
function plain(schema: TSchema): Json {
  return JSON.parse(JSON.stringify(schema)) as Json
}
