import type { IncomingHttpHeaders } from 'node:http'
import type { Logger } from 'pino'
import type { Static, TSchema } from 'typebox'
import type { Principal } from '../access/principal.js'
import type { GuestView, OperationView } from '../fleet/contract.js'
import type { ReplyBody } from './reply-body.js'

/**
 * What a caller that is bound to some guests may do on a route:
 * `guest`: `{id}` names a guest, `task`: `{task_id}` a task of one; others' are answered as what does not exist;
 * `own`: the answer is made of what the caller may see (`visible.ts`);
 * `same`: the answer tells nothing of any guest and is the same for everybody;
 * `refused`: nothing, 403.
 */
export type Bound = 'guest' | 'task' | 'own' | 'same' | 'refused'

/** What the request path found for a route: only what the caller may see gets to a handler. */
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
  /** Stable for repeats of the same request with the same Idempotency-Key, random otherwise; a uuid. */
  readonly operationId: string
  readonly log: Logger
  /**
   * What the audit entry names as target and detail; never secrets. `containerUuid` where it is about a
   * container: a caller bound to containers sees only entries of those. Of `guest` and `task` routes both are
   * known already.
   */
  audit(entry: { target?: string; detail?: string; containerUuid?: string }): void
}

export interface Answer<Data> {
  /** Default 200. */
  status?: number
  message?: string
  data?: Data
  /** Fields of the envelope beside `data`, where the shape of that is given. */
  more?: Record<string, unknown>
  headers?: Record<string, string>
  /** Done in part, and another attempt may do more: it is not kept for its Idempotency-Key. */
  unsettled?: boolean
  /** A whole response body prepared earlier, with its ETag; `data` is then ignored. */
  prepared?: { body: ReplyBody; etag: string }
}

/**
 * One endpoint. The router, authorization, validation, the OpenAPI document and the audit log are derived
 * from it. Paths are relative to `/api/v1`; parameters as `{id}`.
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
  /** `area:verb`; `any` = every valid caller. A route without one does not start. */
  readonly scope: string
  /** What a caller bound to some guests may do. A route that does not say so does not start. */
  readonly bound: R
  /** Audit action (`container.create`); required on everything but GET, except for reads by POST (`false`). */
  readonly audit?: string | false
  /** Operation id in the document, and so the name of a function in clients made from it: `createContainer`. */
  readonly name: string
  readonly summary: string
  readonly tag: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** A body as one is sent; required where there is a body. Refusals of its fields quote it. */
  readonly example?: Static<B>
  /** Body may be absent, and may say any type. Default: required where `body` is given. */
  readonly bodyOptional?: boolean
  /** Schema of `data`. */
  readonly data?: D
  /** Schemas of fields beside `data`. */
  readonly more?: Record<string, TSchema>
  /** Takes `If-Match`, see `ifRevisionOf`. */
  readonly conditional?: boolean
  /** Success status codes it may answer; default [200]. */
  readonly statuses?: readonly number[]
  /** Fields that `sort` may name. */
  readonly sortable?: readonly string[]
  /** The contract has it, this version does not: it answers 501 and does nothing. */
  readonly unsupported?: boolean
  /** Error codes beyond the common ones, see `failuresOf`, for the document. */
  readonly errors?: readonly string[]
  handle(
    context: RequestContext<Static<P>, Static<Q>, Static<B>> & Subjects[R],
  ): Promise<Answer<Static<D>>> | Answer<Static<D>>
}

/** Keeps the types of one route's schemas for its handler, and forgets them for the table. */
export function route<
  P extends TSchema,
  Q extends TSchema,
  B extends TSchema,
  D extends TSchema,
  R extends Bound,
>(definition: Route<P, Q, B, D, R>): Route {
  return definition
}

/** Whether it takes an `Idempotency-Key`. A read by POST ignores it: a repeat shows what is now. */
export function isRepeatable({ method, audit }: Route): boolean {
  return method === 'POST' && audit !== false
}
