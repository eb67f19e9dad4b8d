import type { Json } from './openapi-schema.js'
import { isRepeatable, type Route } from './route.js'

const text = { type: 'string' }

/** Optional, since it is absent when the caller is not known yet. */
function rate(description: string): Json {
  return { required: false, description, schema: { type: 'string', pattern: '^\\d+$' } }
}

const everywhere = ['X-Request-Id', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']

/** Headers of responses, each defined once. */
export const documentedHeaders: Readonly<Record<string, Json>> = {
  'X-Request-Id': {
    required: true,
    description: 'Names the request in the log; the one sent, where it is sane.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$' },
  },
  'X-Total-Count': {
    required: true,
    description: 'Rows of the list, those of other pages included.',
    schema: { type: 'string', pattern: '^\\d+$' },
  },
  ETag: {
    required: true,
    description: 'For `If-None-Match`; of a container also for `If-Match`.',
    schema: text,
  },
  'Retry-After': {
    required: true,
    description: 'Seconds after which another attempt may do better.',
    schema: { type: 'string', pattern: '^\\d+$' },
  },
  'RateLimit-Limit': rate('Requests a second for this caller.'),
  'RateLimit-Remaining': rate('Left of them at this moment.'),
  'RateLimit-Reset': rate('Seconds until all are left again.'),
  'Content-Disposition': { required: true, description: 'A name for the file.', schema: text },
  'Set-Cookie': { required: false, description: 'Of the session; scripts cannot read it.', schema: text },
  'X-Accel-Buffering': {
    required: true,
    description: 'Proxies pass on each event at once.',
    schema: { type: 'string', enum: ['no'] },
  },
  'WWW-Authenticate': { required: true, description: 'How to authenticate.', schema: text },
  'Idempotency-Replayed': {
    required: false,
    description: 'The answer of an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
  },
}

/** Whether answers carry one: a stream has none. */
export function hasEtag({ method, produces }: Route): boolean {
  return method === 'GET' && produces !== 'text/event-stream'
}

export function successHeaders(route: Route): Json {
  return refer([
    ...everywhere,
    ...(route.sortable ? ['X-Total-Count'] : []),
    ...(route.produces === 'application/x-ndjson' ? ['Content-Disposition'] : []),
    ...(route.cookies ? ['Set-Cookie'] : []),
    ...(hasEtag(route) ? ['ETag'] : []),
    ...(route.produces === 'text/event-stream' ? ['X-Accel-Buffering'] : []),
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
