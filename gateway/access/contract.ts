import type { IncomingMessage } from 'node:http'
import type { Principal } from './principal.js'
import type { RequestLimits } from './request-limits.js'

/*
 * What the request path needs from access control, which itself knows nothing of HTTP routes. The order is fixed: count the address, authenticate, count the caller, authorize,
 * validate, claim the idempotency key, begin the audit entry, handle, finish both, answer.
 */

/** Where a request carries what proves its caller. */
export type Credentials = Pick<IncomingMessage, 'headers' | 'method'>

export interface Authenticator {
  /**
   * @param address client address after trusted proxies, IPv4-mapped IPv6 as IPv4
   * @throws {BerthError} `unauthorized`, `key_disabled`, `key_expired` (401), `ip_not_allowed` (403),
   * `rate_limited` (429) instead of those after too many of them, `store_unavailable` (503): a store that is down lets nobody in
   */
  authenticate(request: Credentials, address: string): Promise<Principal>
}

/** @throws {BerthError} `insufficient_scope`. The scope `any` asks for nothing. */
export type Authorize = (caller: Principal, scope: string) => void

export interface AuditStart {
  readonly action: string
  readonly caller: Principal
  /** The client's. */
  readonly address: string
  readonly requestId: string
  /** As far as the request names it; the handler may name it better in the outcome. */
  readonly target: string
}

export interface AuditOutcome {
  readonly success: boolean
  /** What was acted on: a container's name, a key's id. */
  readonly target: string
  /** For people; never secrets. */
  readonly detail: string
  /** The container it was about, where it was about one: keys bound to containers see only such entries. */
  readonly containerUuid?: string | undefined
}

/** A begun audit entry; opaque to the pipeline. */
export interface AuditEntry {
  readonly id: string
}

export interface AuditLog {
  /** Durable when it resolves. @throws {BerthError} `store_unavailable`: then nothing is done */
  begin(start: AuditStart): Promise<AuditEntry>
  /**
   * Durable when it resolves; awaited before the client is answered.
   * @throws {BerthError} `store_unavailable`: it is written once the store is back, unless the process ends before
   */
  finish(entry: AuditEntry, outcome: AuditOutcome): Promise<void>
}

/** An answer as it was sent. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The right to run one request with its Idempotency-Key. */
export interface IdempotencyClaim {
  /** Stays the same for every attempt with this key and body. */
  readonly operationId: string
  /** Opaque to the pipeline. */
  readonly id: string
}

export interface IdempotentRequest {
  readonly caller: Principal
  /** The header, 1 to 255 printable ASCII characters, checked by the pipeline. */
  readonly key: string
  /** Digest of method, path (without the version prefix), query and body. */
  readonly fingerprint: string
}

export interface Idempotency {
  /**
   * @throws {BerthError} `idempotency_conflict` (422) for another fingerprint, `task_running` (409) while the
   * first attempt runs, `store_unavailable`
   */
  begin(
    request: IdempotentRequest,
  ): Promise<{ claim: IdempotencyClaim } | { replay: StoredAnswer; operationId: string }>
  /** Keeps the answer for replays. */
  finish(claim: IdempotencyClaim, answer: StoredAnswer): Promise<void>
  /** The attempt ended without an answer worth keeping (5xx): the next one runs, with the same operation id. */
  release(claim: IdempotencyClaim): Promise<void>
}

/** Everything the request path takes from access control. */
export interface AccessControl {
  readonly authenticator: Authenticator
  readonly authorize: Authorize
  /** Requests of each caller, by `ref`. */
  readonly callers: RequestLimits
  /** Requests from each source, by `sourceOf` the client's address. */
  readonly addresses: RequestLimits
  readonly audit: AuditLog
  readonly idempotency: Idempotency
}

/** Store health, for `/readyz` and metrics. */
export interface StoreHealth {
  /** Resolves when the store answers; @throws with the reason. */
  ping(): Promise<void>
}
