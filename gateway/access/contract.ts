import type { IncomingMessage } from 'node:http'
import type { Principal, SessionPrincipal } from './principal.js'
import type { RequestLimits } from './request-limits.js'

/*
 * The part of access control that the request path uses; it knows no HTTP routes. The order is fixed: count the
 * address, authenticate, count the caller, authorize, validate, claim the idempotency key, begin the audit entry,
 * handle, finish both, answer.
 */

/** The parts of a request with its caller's credentials. */
export interface Credentials extends Pick<IncomingMessage, 'headers' | 'method'> {
  /** True if it came over TLS, here or at a trusted proxy. Default: no. */
  readonly secure?: boolean
}

/** Callers with a session. */
export interface SessionCallers {
  /** True if a request has the cookie of any session. */
  has(request: Credentials): boolean
  /** `undefined`: there is no session, or it has ended. @throws {BerthError} `csrf_refused`, `store_unavailable` */
  find(request: Credentials): Promise<SessionPrincipal | undefined>
  /**
   * The same for an open console or stream, by the session's digest: like a request, it counts as a use of the session.
   * @throws {BerthError} `store_unavailable`
   */
  findByDigest(digest: string): Promise<SessionPrincipal | undefined>
  /** True if a request has the cookie of this session. */
  isOf(digest: string, request: Credentials): boolean
  /** The same, without counting a use. */
  peek(request: Credentials): Promise<SessionPrincipal | undefined>
}

export interface Authenticator {
  /**
   * @param address client address after trusted proxies, IPv4-mapped IPv6 as IPv4
   * @throws {BerthError} `unauthorized`, `key_disabled`, `key_expired` (401), `ip_not_allowed`, `csrf_refused` (403);
   * `rate_limited` (429) instead, after too many of those; `store_unavailable` (503): without the store nobody is
   * authenticated
   */
  authenticate(request: Credentials, address: string): Promise<Principal>
  /**
   * The same for a request in progress: it does not count as a use, so that the session may expire meanwhile.
   * @throws {BerthError} as `authenticate`, except `rate_limited`
   */
  recheck(request: Credentials, address: string): Promise<Principal>
}

/** @throws {BerthError} `insufficient_scope`. The scope `any` needs no right. */
export type Authorize = (caller: Principal, scope: string) => void

export interface AuditStart {
  readonly action: string
  /** `root` is absent if it equals `ref`. */
  readonly caller: Pick<Principal, 'ref' | 'user'> & Partial<Pick<Principal, 'root'>>
  /** Address of the client. */
  readonly address: string
  readonly requestId: string
  /** As named in the request; the handler may improve it in the outcome. */
  readonly target: string
}

export interface AuditOutcome {
  readonly success: boolean
  /** Name of the target: a container's name, a key's id. */
  readonly target: string
  /** For people; contains no secrets. */
  readonly detail: string
  /** The affected container, if any: keys bound to containers see only such entries. */
  readonly containerUuid?: string | undefined
}

/** A begun audit entry, opaque to the pipeline. */
export interface AuditEntry {
  readonly id: string
  /** Caller and target, by which repeated failures are recognized. */
  readonly by: string
  readonly action: string
  readonly address: string
}

export interface AuditLog {
  /** Durable when it resolves. @throws {BerthError} `store_unavailable`: then the action must not run */
  begin(start: AuditStart): Promise<AuditEntry>
  /**
   * Durable when it resolves; await it before answering the client.
   * @throws {BerthError} `store_unavailable`: it is written once the store is back, unless the process ends before
   */
  finish(entry: AuditEntry, outcome: AuditOutcome): Promise<void>
}

/** An answer as sent. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The right to run a request with an Idempotency-Key. */
export interface IdempotencyClaim {
  /** The same for every attempt with this key and body. */
  readonly operationId: string
  /** Opaque to the pipeline. */
  readonly id: string
}

export interface IdempotentRequest {
  readonly caller: Principal
  /** The header's value, 1 to 255 printable ASCII characters, checked by the pipeline. */
  readonly key: string
  /** Digest of method, path (without the version prefix), query and body. */
  readonly fingerprint: string
}

export interface Idempotency {
  /**
   * @throws {BerthError} `idempotency_conflict` (422) for another fingerprint, `task_running` (409) while the first
   * attempt runs, `store_unavailable`
   */
  begin(
    request: IdempotentRequest,
  ): Promise<{ claim: IdempotencyClaim } | { replay: StoredAnswer; operationId: string }>
  /** Stores the answer for replays. */
  finish(claim: IdempotencyClaim, answer: StoredAnswer): Promise<void>
  /** Ends an attempt without an answer worth replaying (5xx): the next one runs with the same operation id. */
  release(claim: IdempotencyClaim): Promise<void>
}

/** Everything that the request path needs from access control. */
export interface AccessControl {
  readonly authenticator: Authenticator
  readonly authorize: Authorize
  /** Limits requests of each caller, by `root`. */
  readonly callers: RequestLimits
  /** Limits requests from each source, by `sourceOf` the client's address. */
  readonly addresses: RequestLimits
  readonly audit: AuditLog
  readonly idempotency: Idempotency
}

/** Store health, for `/readyz` and metrics. */
export interface StoreHealth {
  /** Resolves when the store answers; throws the reason otherwise. */
  ping(): Promise<void>
  /** Why the store is not ready; "" when it is. */
  reason(): string
}
