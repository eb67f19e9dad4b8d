import type { Json } from './openapi-schema.js'
import { isRepeatable, type Route } from './route.js'

const text = { type: 'string' }

/** Describes a header of the rate limit. The header is optional, because answers to unknown callers lack it. */
function rate(description: string): Json {
  return { required: false, description, schema: { type: 'string', pattern: '^\\d+$' } }
}

const everywhere = ['X-Request-Id', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']

/** Descriptions of response headers. Responses in the document refer to them. */
export const documentedHeaders: Readonly<Record<string, Json>> = {
  'X-Request-Id': {
    required: true,
    description:
      'Id of the request in the log of the gateway. If the request sends a valid value, it is used, else an id is generated.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$' },
  },
  'X-Total-Count': {
    required: true,
    description: 'Total number of rows on all pages.',
    schema: { type: 'string', pattern: '^\\d+$' },
  },
  ETag: {
    required: true,
    description: 'Version of the returned data. It can be sent as `If-None-Match` and, for a container, as `If-Match`.',
    schema: text,
  },
  'Retry-After': {
    required: true,
    description: 'Seconds to wait before the next attempt.',
    schema: { type: 'string', pattern: '^\\d+$' },
  },
  'RateLimit-Limit': rate('Allowed requests per second of this caller.'),
  'RateLimit-Remaining': rate('Remaining requests at this moment.'),
  'RateLimit-Reset': rate('Seconds until all requests are available again.'),
  'Content-Disposition': {
    required: true,
    description: 'File name that is suggested for saving the answer.',
    schema: text,
  },
  'Set-Cookie': { required: false, description: 'Session cookie. Scripts cannot read it.', schema: text },
  'X-Accel-Buffering': {
    required: true,
    description: 'Tells proxies to forward each event immediately.',
    schema: { type: 'string', enum: ['no'] },
  },
  'WWW-Authenticate': { required: true, description: 'Supported authentication methods.', schema: text },
  'Idempotency-Replayed': {
    required: false,
    description:
      '`true`: the answer is a repetition of the answer to an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
  },
}

function isStream(produces: Route['produces']): boolean {
  return produces === 'text/event-stream' || produces === 'application/octet-stream'
}

/** True if answers of the route have an ETag. Streams have no ETag. */
export function hasEtag({ method, produces }: Route): boolean {
  return method === 'GET' && !isStream(produces)
}

export function successHeaders(route: Route): Json {
  return refer([
    ...everywhere,
    ...(route.sortable ? ['X-Total-Count'] : []),
    ...(route.produces === 'application/x-ndjson' || route.produces === 'application/octet-stream'
      ? ['Content-Disposition']
      : []),
    ...(route.cookies ? ['Set-Cookie'] : []),
    ...(hasEtag(route) ? ['ETag'] : []),
    ...(isStream(route.produces) ? ['X-Accel-Buffering'] : []),
    ...(isRepeatable(route) ? ['Idempotency-Replayed'] : []),
  ])
}

export function failureHeaders(status: number): Json {
  return refer([
    ...everywhere,
    ...(status === 401 ? ['WWW-Authenticate'] : []),
    ...(status === 429 || status === 503 ? ['Retry-After'] : []),
    ...(status === 400 || status === 403 || status === 422 ? ['Idempotency-Replayed'] : []),
  ])
}

function refer(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}
