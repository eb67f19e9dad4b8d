import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Static, TSchema } from 'typebox'
import type { Principal } from '../access/principal.js'
import type { GuestView, OperationView } from '../fleet/contract.js'
import type { ReplyBody } from './reply-body.js'

/**
 * What a caller bound to some guests may do on a route:
 * `guest`: `{id}` names a guest, `task`: `{task_id}` a task of one; others' are answered like missing ones;
 * `own`: the answer contains only what the caller may see (`visible.ts`);
 * `same`: the answer tells nothing of any guest and is the same for everybody;
 * `refused`: nothing, 403.
 */
export type Bound = 'guest' | 'task' | 'own' | 'same' | 'refused'

/**
 * Whether sub-users may call a route, with the permission that is its scope:
 * `allowed`;
 * `inner`: also with `container:network:inner`, which the handler narrows;
 * `refused`: no, 403.
 */
export type SubUserAccess = 'allowed' | 'inner' | 'refused'

/** Only a route that is closed to bound callers, of whom sub-users are some, may leave it out. */
type SubUserDecision<R extends Bound> = R extends 'refused'
  ? { readonly subUser?: 'refused' }
  : { readonly subUser: SubUserAccess }

/** What the request path found for a route: handlers only get what the caller may see. */
export interface Subjects {
  readonly guest: { readonly guest: GuestView }
  readonly task: { readonly task: OperationView }
  readonly own: object
  readonly same: object
  readonly refused: object
}

export interface RequestContext<Params, Query, Body> {
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly caller: Principal
  readonly requestId: string
  readonly headers: IncomingHttpHeaders
  /** Address of the other end of the connection: the client's, or a proxy's. */
  readonly peer: string
  /** Address of the client, after trusted proxies. */
  readonly address: string
  /** Whether it came by TLS, here or at a trusted proxy. */
  readonly secure: boolean
  /**
   * The caller as it is now, for an answer that goes on.
   * @throws {BerthError} once it may not call this any more; `store_unavailable`: nobody knows
   */
  readonly recheck: () => Promise<Principal>
  /** A uuid; the same for repeats of a request with its Idempotency-Key, otherwise random. */
  readonly operationId: string
  readonly log: Logger
  /**
   * Sets target and detail of the audit entry, without secrets. Set `containerUuid` when it is about a container, as a
   * bound caller sees only entries of its containers. For `guest` and `task` routes these are set already.
   */
  audit(entry: { target?: string; detail?: string; containerUuid?: string }): void
}

export interface Answer<Data> {
  /** Default 200. */
  status?: number
  message?: string
  data?: Data
  /** Fields of the envelope beside `data`, for a given response shape. */
  more?: Record<string, unknown>
  headers?: Record<string, string>
  /** Each becomes a `Set-Cookie`; not on GET. */
  cookies?: readonly string[]
  /** Writes the body, and goes on as long as it likes; the request is in progress until the connection is closed. */
  stream?: (response: ServerResponse) => void
  /** Done only in part: a repeat may do more, so the answer is not kept for its Idempotency-Key. */
  unsettled?: boolean
  /** A prepared response body with its ETag, used instead of `data`. */
  prepared?: { body: ReplyBody; etag: string }
}

/**
 * One endpoint. Router, authorization, validation, OpenAPI document and audit log are derived from it. Paths are
 * relative to `/api/v1`, with parameters like `{id}`.
 */
export interface Route<
  P extends TSchema = TSchema,
  Q extends TSchema = TSchema,
  B extends TSchema = TSchema,
  D extends TSchema = TSchema,
  R extends Bound = Bound,
> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  /**
   * `area:verb`; `*`: everything; `any`: every valid caller; `session`: who has logged in; `public`: anybody, its
   * handler checks what is sent. Without a scope the gateway does not start.
   */
  readonly scope: string
  /** What a bound caller may do. Without it the gateway does not start. */
  readonly bound: R
  /** Whether sub-users may call it. Without it the gateway does not start, unless `bound` is `refused`. */
  readonly subUser?: SubUserAccess
  /** Its answers may set cookies. */
  readonly cookies?: boolean
  /** Who has logged in must have given password or code in the last ten minutes; see `refuseUnconfirmed`. */
  readonly confirmed?: boolean
  /** Audit action (`container.create`); required except on GET; `false` for a read by POST. */
  readonly audit?: string | false
  /** Operation id in the document, so a function's name in generated clients: `createContainer`. */
  readonly name: string
  readonly summary: string
  readonly tag: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** A valid body; required where there is a body. Refusals of its fields quote it. */
  readonly example?: Static<B>
  /** The body may be absent, and of any type. Default: required when `body` is given. */
  readonly bodyOptional?: boolean
  /** Schema of `data`. */
  readonly data?: D
  /** Media type of an answer without an envelope: a picture, a JSON document per line (see `linesAnswer`), a stream. */
  readonly produces?: 'image/png' | 'application/x-ndjson' | 'text/event-stream'
  /** Schemas of fields beside `data`. */
  readonly more?: Record<string, TSchema>
  /** Accepts `If-Match`, see `ifRevisionOf`. */
  readonly conditional?: boolean
  /** Status codes of success; default [200]. */
  readonly statuses?: readonly number[]
  /** Fields that `sort` may name. */
  readonly sortable?: readonly string[]
  /** Error codes beyond the common ones (see `failuresOf`), for the document. */
  readonly errors?: readonly string[]
  handle(
    context: RequestContext<Static<P>, Static<Q>, Static<B>> & Subjects[R],
  ): Promise<Answer<Static<D>>> | Answer<Static<D>>
}

/** Checks a route's handler against its schemas; the result has the table's common type. */
export function route<P extends TSchema, Q extends TSchema, B extends TSchema, D extends TSchema, R extends Bound>(
  definition: Route<P, Q, B, D, R> & SubUserDecision<R>,
): Route {
  return definition
}

/**
 * Whether it accepts an `Idempotency-Key`. A read by POST ignores it: a repeat shows the current state; so does what is
 * about one's own log-in, whose answers are credentials.
 */
export function isRepeatable({ method, audit, scope }: Route): boolean {
  return method === 'POST' && audit !== false && scope !== 'public' && scope !== 'session'
}
