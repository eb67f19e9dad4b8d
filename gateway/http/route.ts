import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Static, TSchema } from 'typebox'
import type { Principal } from '../access/principal.js'
import type { GuestView, OperationView } from '../fleet/contract.js'
import type { ReplyBody } from './reply-body.js'

/**
 * Access of callers bound to guests:
 * `guest`: `{id}` names a guest, `task`: `{task_id}` a task of one; foreign ones are answered like missing ones;
 * `own`: the answer contains only what the caller may see (`visible.ts`);
 * `same`: the answer contains no guests and is the same for everybody;
 * `refused`: no access, 403.
 */
export type Bound = 'guest' | 'task' | 'own' | 'same' | 'refused'

/**
 * Access of sub-users to a route, with the permission that is its scope:
 * `allowed`;
 * `inner`: also with `container:network:inner`, which the handler narrows;
 * `refused`: no, 403.
 */
export type SubUserAccess = 'allowed' | 'inner' | 'refused'

/** Only a route that is closed to bound callers, and therefore to sub-users, may omit it. */
type SubUserDecision<R extends Bound> = R extends 'refused'
  ? { readonly subUser?: 'refused' }
  : { readonly subUser: SubUserAccess }

/** The objects that the request path found for a route: handlers receive only those that the caller may see. */
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
  /** True if it came over TLS, here or at a trusted proxy. */
  readonly secure: boolean
  /**
   * The caller with its present rights, for an answer that continues.
   * @throws {BerthError} once it may not call this any more; `store_unavailable`: this is unknown
   */
  readonly recheck: () => Promise<Principal>
  /** A uuid; the same for repeats of a request with its Idempotency-Key, otherwise random. */
  readonly operationId: string
  readonly log: Logger
  /**
   * Sets target and detail of the audit entry, without secrets. Set `containerUuid` for an entry about a container, as
   * a bound caller sees only entries of its containers. For `guest` and `task` routes these are set already.
   */
  audit(entry: { target?: string; detail?: string; containerUuid?: string }): void
}

export interface Answer<Data> {
  /** Default 200. */
  status?: number
  message?: string
  data?: Data
  /** Fields of the envelope in addition to `data`, for a given response shape. */
  more?: Record<string, unknown>
  headers?: Record<string, string>
  /** Each becomes a `Set-Cookie`; not on GET. */
  cookies?: readonly string[]
  /** Writes the body without a time limit; the request is in progress until the connection is closed. */
  stream?: (response: ServerResponse) => void
  /** Completed only in part: a repetition may complete more, so the answer is not stored for its Idempotency-Key. */
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
   * `area:verb`; `*`: everything; `any`: every valid caller; `session`: logged-in users; `public`: anybody, its handler
   * checks the request. Without a scope the gateway does not start.
   */
  readonly scope: string
  /** Access of bound callers. Without it the gateway does not start. */
  readonly bound: R
  /** Access of sub-users. Without this field the gateway does not start, unless `bound` is `refused`. */
  readonly subUser?: SubUserAccess
  /** True if its answers may set cookies. */
  readonly cookies?: boolean
  /**
   * Requires that a logged-in user has confirmed the password or a code in the last ten minutes; see
   * `refuseUnconfirmed`.
   */
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
  /** Schemas of fields in addition to `data`. */
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
 * True if the route accepts an `Idempotency-Key`. A read by POST ignores it, since a repetition shows the current
 * state. So do routes of the user's own login, whose answers contain credentials.
 */
export function isRepeatable({ method, audit, scope }: Route): boolean {
  return method === 'POST' && audit !== false && scope !== 'public' && scope !== 'session'
}
