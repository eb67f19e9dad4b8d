import type { IncomingMessage } from 'node:http'
import type { Principal, SessionPrincipal } from './principal.js'
import type { RequestLimits } from './request-limits.js'

/*
 * The part of access control that handles requests. It does not know routes. The steps of a request have a fixed order:
 * count it for its address, authenticate, count it for its caller, authorize, validate, reserve the Idempotency-Key,
 * begin the audit entry, run the handler, write the outcome to the audit entry, store the answer under the
 * Idempotency-Key, send the answer.
 */

/** The parts of a request that identify its caller. */
export interface Credentials extends Pick<IncomingMessage, 'headers' | 'method'> {
  /** True if the request was encrypted with TLS, to this gateway or to a trusted proxy. Default: false. */
  readonly secure?: boolean
}

/** Finds the session that a request belongs to. */
export interface SessionCallers {
  /** True if a request has the cookie of any session. This session can already have ended. */
  has(request: Credentials): boolean
  /**
   * Finds the session of a request. `undefined`: the request has no session, or the session has ended.
   * @throws {BerthError} `csrf_refused`, `store_unavailable`
   */
  find(request: Credentials): Promise<SessionPrincipal | undefined>
  /**
   * Finds a session by its digest, for an open console or stream. The search counts as a use of the session.
   * @throws {BerthError} `store_unavailable`
   */
  findByDigest(digest: string): Promise<SessionPrincipal | undefined>
  /** True if a request has the cookie of this session. */
  isOf(digest: string, request: Credentials): boolean
  /** Finds the session of a request without counting this as a use of the session. */
  peek(request: Credentials): Promise<SessionPrincipal | undefined>
}

export interface Authenticator {
  /**
   * Identifies the caller of a request. After too many failures, throws `rate_limited` in place of the other errors.
   * @param address client address behind trusted proxies; IPv4-mapped IPv6 is converted to IPv4
   * @throws {BerthError} `unauthorized`, `key_disabled`, `key_expired` (401), `ip_not_allowed`, `csrf_refused` (403),
   * `rate_limited` (429), `store_unavailable` (503)
   */
  authenticate(request: Credentials, address: string): Promise<Principal>
  /**
   * Checks the caller of a running request again. This check does not keep the session alive.
   * @throws {BerthError} as `authenticate`, except `rate_limited`
   */
  recheck(request: Credentials, address: string): Promise<Principal>
}

/** Checks that the caller has a scope. The scope `any` is always granted. @throws {BerthError} `insufficient_scope` */
export type Authorize = (caller: Principal, scope: string) => void

export interface AuditStart {
  readonly action: string
  /** Caller of the action. If `root` is absent, `ref` is used in its place. */
  readonly caller: Pick<Principal, 'ref' | 'user'> & Partial<Pick<Principal, 'root'>>
  readonly address: string
  readonly requestId: string
  /** Target as named in the request. The outcome can contain a more precise name. */
  readonly target: string
}

export interface AuditOutcome {
  readonly success: boolean
  /** Target of the action, for example the name of a container or the id of a key. */
  readonly target: string
  /** Details of the outcome for administrators. They contain no secrets. */
  readonly detail: string
  /** Uuid of the affected container. Callers restricted to some containers see only entries about these containers. */
  readonly containerUuid?: string | undefined
}

/** An audit entry without an outcome. */
export interface AuditEntry {
  readonly id: string
  /** `Principal.ref` of the caller. It serves to recognize repeated failures of this caller. */
  readonly by: string
  readonly action: string
  readonly address: string
}

export interface AuditLog {
  /** Writes the start of an action durably. @throws {BerthError} `store_unavailable`: the action must not be run */
  begin(start: AuditStart): Promise<AuditEntry>
  /**
   * Writes the outcome durably. Await it before the answer is sent.
   * @throws {BerthError} `store_unavailable`: the outcome is written later, unless the process ends first
   */
  finish(entry: AuditEntry, outcome: AuditOutcome): Promise<void>
}

/** An answer as it was sent to the client. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The right to process a request with an Idempotency-Key. */
export interface IdempotencyClaim {
  /** Id of the operation. It is the same for all attempts with this Idempotency-Key and body. */
  readonly operationId: string
  /** Id of the stored request. */
  readonly id: string
}

export interface IdempotentRequest {
  readonly caller: Principal
  /** Value of the Idempotency-Key header: 1 to 255 printable ASCII characters, already validated. */
  readonly key: string
  /** Digest of method, path (without the version prefix), query and body of the request. */
  readonly fingerprint: string
}

export interface Idempotency {
  /**
   * Reserves a request for this process, or finds its stored answer.
   * @throws {BerthError} `idempotency_conflict` (422) if the key was used for another request, `task_running` (409)
   * while another attempt runs, `store_unavailable`
   */
  begin(
    request: IdempotentRequest,
  ): Promise<{ claim: IdempotencyClaim } | { replay: StoredAnswer; operationId: string }>
  /** Stores the answer. Later attempts receive the same answer. */
  finish(claim: IdempotencyClaim, answer: StoredAnswer): Promise<void>
  /** Ends an attempt whose answer (5xx) is not stored. The next attempt runs with the same operation id. */
  release(claim: IdempotencyClaim): Promise<void>
}

/** Caches of the state that all gateways share in the store. */
export interface SharedCaches {
  /**
   * Waits until this gateway has applied all changes that any gateway acknowledged before this call.
   * @throws {BerthError} `store_unavailable`
   */
  current(): Promise<void>
  /**
   * Resolves when all changes that were stored before this call are visible at all gateways. Never rejects. Await it
   * before a change is acknowledged.
   */
  visibleEverywhere(): Promise<void>
}

/** The parts of access control that the processing of requests needs. */
export interface AccessControl {
  readonly authenticator: Authenticator
  readonly authorize: Authorize
  /** Limits the requests of each caller. Callers with the same `Principal.root` share a limit. */
  readonly callers: RequestLimits
  /** Limits the requests from each source. The result of `sourceOf` identifies a source. */
  readonly addresses: RequestLimits
  readonly audit: AuditLog
  readonly idempotency: Idempotency
  readonly shared: SharedCaches
}

/** Health of the store, for `/readyz` and metrics. */
export interface StoreHealth {
  /** Resolves if the store answers. Rejects with the reason if it does not. */
  ping(): Promise<void>
  /** Reason why the store is not ready. "": it is ready. */
  reason(): string
}
