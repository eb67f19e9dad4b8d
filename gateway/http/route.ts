import type { IncomingHttpHeaders } from 'node:http'
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
  /** `area:verb`; `any`: every valid caller. Without a scope the gateway does not start. */
  readonly scope: string
  /** What a bound caller may do. Without it the gateway does not start. */
  readonly bound: R
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
  /** Schemas of fields beside `data`. */
  readonly more?: Record<string, TSchema>
  /** Accepts `If-Match`, see `ifRevisionOf`. */
  readonly conditional?: boolean
  /** Status codes of success; default [200]. */
  readonly statuses?: readonly number[]
  /** Fields that `sort` may name. */
  readonly sortable?: readonly string[]
  /** In the contract, but not in this version: it answers 501 and does nothing. */
  readonly unsupported?: boolean
  /** Error codes beyond the common ones (see `failuresOf`), for the document. */
  readonly errors?: readonly string[]
  handle(
    context: RequestContext<Static<P>, Static<Q>, Static<B>> & Subjects[R],
  ): Promise<Answer<Static<D>>> | Answer<Static<D>>
}

/** Checks a route's handler against its schemas; the result has the table's common type. */
export function route<
  P extends TSchema,
  Q extends TSchema,
  B extends TSchema,
  D extends TSchema,
  R extends Bound,
>(definition: Route<P, Q, B, D, R>): Route {
  return definition
}

/** Whether it accepts an `Idempotency-Key`. A read by POST ignores it: a repeat shows the current state. */
export function isRepeatable({ method, audit }: Route): boolean {
  return method === 'POST' && audit !== false
}
