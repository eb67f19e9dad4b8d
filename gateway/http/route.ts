import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { Static, TSchema } from 'typebox'
import type { Principal } from '../access/principal.js'
import type { GuestView, OperationView } from '../fleet/contract.js'
import type { ReplyBody } from './reply-body.js'

/**
 * Access to a route for bound callers, which are restricted to some guests:
 * `guest`: the path contains a guest as `{id}`, and the caller must have access to this guest;
 * `task`: the path contains a task as `{task_id}`, and the caller must have access to the guest of the task;
 * `own`: the answer contains only what the caller may see (`visible.ts`);
 * `same`: the answer does not depend on the caller; `refused`: the route answers 403.
 */
export type Bound = 'guest' | 'task' | 'own' | 'same' | 'refused'

/**
 * Access of sub-users to a route:
 * `allowed`: they need the route's scope;
 * `inner`: the scope `container:network:inner` is enough, but the handler then restricts the change;
 * `refused`: the route answers 403.
 */
export type SubUserAccess = 'allowed' | 'inner' | 'refused'

/** Routes must set `subUser`, except routes with `bound: 'refused'`, which are closed to sub-users. */
type SubUserDecision<R extends Bound> = R extends 'refused'
  ? { readonly subUser?: 'refused' }
  : { readonly subUser: SubUserAccess }

/** The guest or task that the path names. Handlers receive it only if the caller may see it. */
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
  /** Address of the other end of the connection, which can be a proxy. */
  readonly peer: string
  /** Address of the client, even if trusted proxies have forwarded the request. */
  readonly address: string
  /** True if the request was encrypted with TLS, to this gateway or to a trusted proxy. */
  readonly secure: boolean
  /**
   * Returns the caller with its present rights, for answers that take long, such as streams.
   * @throws {BerthError} if the caller may no longer use the route; `store_unavailable` if the store is down
   */
  readonly recheck: () => Promise<Principal>
  /** A uuid. All repetitions of a request with an Idempotency-Key have the same uuid. */
  readonly operationId: string
  /** The unread body of a request. Only handlers of routes with `uploads` may use it. */
  readonly upload?: Readable
  readonly log: Logger
  /**
   * Sets target and detail of the audit entry. They must not contain secrets. An entry about a container needs
   * `containerUuid`, because callers restricted to some guests see only their guests' entries. In `guest` and `task`
   * routes, the field is already set.
   */
  audit(entry: { target?: string; detail?: string; containerUuid?: string }): void
}

export interface Answer<Data> {
  /** HTTP status. Default: 200. */
  status?: number
  message?: string
  data?: Data
  /** Fields of the answer in addition to `data`. */
  more?: Record<string, unknown>
  headers?: Record<string, string>
  /** Values of `Set-Cookie` headers. Not allowed for GET. */
  cookies?: readonly string[]
  /** Writes the body without a time limit. The request stays in progress until the connection is closed. */
  stream?: (response: ServerResponse) => void
  /** Called instead of `stream` if the body is not sent: the client has gone, or requested only the headers. */
  unused?: () => void
  /** True if the request succeeded only in part. Its answer is not stored, so that a repetition can complete it. */
  unsettled?: boolean
  /** A prepared body with its ETag, which replaces `data`. */
  prepared?: { body: ReplyBody; etag: string }
}

/**
 * An endpoint of the API. Router, authorization, validation, OpenAPI document and audit log use this definition. The
 * path is relative to `/api/v1` and contains parameters as `{id}`.
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
   * Required permission `area:verb`, or `*`: all permissions; `any`: a valid caller; `session`: a logged-in user;
   * `public`: no permission, the handler checks the request. Without a scope, the gateway does not start.
   */
  readonly scope: string
  /** Access of callers that are restricted to some guests. Without this field, the gateway does not start. */
  readonly bound: R
  /** Access of sub-users. Required, except with `bound: 'refused'`. If it is missing, the gateway does not start. */
  readonly subUser?: SubUserAccess
  /** True if answers may set cookies. Callers with an API key cannot use them, see `refuseKeys`. */
  readonly cookies?: boolean
  /** True if a logged-in user must have confirmed their identity in the last ten minutes, see `refuseUnconfirmed`. */
  readonly confirmed?: boolean
  /** Action in the audit log (`container.create`). Required except for GET. `false`: a POST that only reads. */
  readonly audit?: string | false
  /** Operation id in the document. Generated clients use it as the name of a function. */
  readonly name: string
  readonly summary: string
  readonly tag: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** A valid body. Required if the route has a body. Error messages quote its values. */
  readonly example?: Static<B>
  /** True if the body may be absent, or have any Content-Type. Default: a body is required. */
  readonly bodyOptional?: boolean
  /**
   * Content types of a body of any length, which the handler reads as a stream. The handler must limit slow clients. A
   * body without a type is accepted, too.
   */
  readonly uploads?: readonly string[]
  /** Schema of `data` in the answer. */
  readonly data?: D
  /** Media type of an answer without an envelope: a picture, one JSON document per line, or a stream. */
  readonly produces?: 'image/png' | 'application/octet-stream' | 'application/x-ndjson' | 'text/event-stream'
  /** Schemas of fields of the answer in addition to `data`. */
  readonly more?: Record<string, TSchema>
  /** True if requests may contain `If-Match`, see `ifRevisionOf`. */
  readonly conditional?: boolean
  /** HTTP statuses of success. Default: [200]. */
  readonly statuses?: readonly number[]
  readonly sortable?: readonly string[]
  /** Error codes in addition to the common ones (see `failuresOf`), for the OpenAPI document. */
  readonly errors?: readonly string[]
  handle(
    context: RequestContext<Static<P>, Static<Q>, Static<B>> & Subjects[R],
  ): Promise<Answer<Static<D>>> | Answer<Static<D>>
}

/** Checks the types of a route and returns it with the common type of all routes. */
export function route<P extends TSchema, Q extends TSchema, B extends TSchema, D extends TSchema, R extends Bound>(
  definition: Route<P, Q, B, D, R> & SubUserDecision<R>,
): Route {
  return definition
}

/** True if only logged-in accounts can use the route, and no API keys. Only browsers store the cookies of an answer. */
export function isForSessions({ scope, cookies }: Pick<Route, 'scope' | 'cookies'>): boolean {
  return scope === 'session' || (cookies === true && scope !== 'public')
}

/**
 * True if the gateway uses an `Idempotency-Key` in requests of the route. Three kinds of POST routes ignore it: routes
 * that only read, because they must return the current state, login routes, which return credentials, and routes whose
 * body is a stream, because it cannot be compared.
 */
export function isRepeatable(route: Route): boolean {
  const { method, audit, scope, uploads } = route
  return method === 'POST' && audit !== false && scope !== 'public' && !isForSessions(route) && !uploads
}
