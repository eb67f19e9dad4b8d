import { BerthError, toBerthError, type ErrorKind } from '../../shared/errors.js'
import { jsonType } from './reply.js'

const statusByKind: Record<ErrorKind, number> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  exhausted: 409,
  unavailable: 503,
  timeout: 504,
  internal: 500,
  unsupported: 501,
}

/** HTTP statuses of error codes. Codes that are missing here have the status of their error's kind. */
const statusByCode: Readonly<Record<string, number>> = {
  method_not_allowed: 405,
  payload_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  request_timeout: 408,
  policy_blocked: 403,
  quota_exceeded: 403,
  precondition_failed: 412,
  idempotency_conflict: 422,
  rate_limited: 429,
  too_many_consoles: 429,
  agent_error: 502,
}

/** Statuses that follow from the kinds of errors, for the OpenAPI document, which knows only codes. Default: 400. */
const statusOfOthers: Readonly<Record<string, number>> = {
  ...Object.fromEntries(
    ['unauthorized', 'key_disabled', 'key_expired', 'login_failed', 'login_expired'].map((code) => [code, 401]),
  ),
  ...Object.fromEntries(
    [
      'insufficient_scope',
      'ip_not_allowed',
      'access_policy_denied',
      'csrf_refused',
      'two_factor_required',
      'confirmation_required',
      'confirmation_failed',
      'cli_login_denied',
      'origin_not_allowed',
    ].map((code) => [code, 403]),
  ),
  not_found: 404,
  cli_login_unknown: 404,
  ...Object.fromEntries(
    [
      'name_conflict',
      'port_conflict',
      'address_in_use',
      'task_running',
      'delete_protected',
      'agent_outdated',
      'invalid_state',
      'key_limit_reached',
      'account_limit_reached',
      'ssh_key_limit_reached',
      'passkey_limit_reached',
      'passkeys_unavailable',
      'image_in_use',
      'image_disabled',
      'swap_unsupported',
      'disk_shrink',
      'resource_exhausted',
      'placement_group',
      'placement_label',
      'placement_spread',
      'placement_together',
      'memory_in_use',
      'storage_full',
      'guest_busy',
      'guest_refused',
      'disk_too_small',
      'import_interrupted',
      'guest_not_running',
      'snapshot_space_exceeded',
      'backup_target_missing',
      'backup_target_unreachable',
      'backup_target_refused',
      'backup_target_failed',
      'backup_password_wrong',
      'backup_damaged',
      'ssl_busy',
      'ssl_changed',
      'ssl_probe_failed',
      'tls_not_configured',
      'port_denied',
      'acme_refused',
      'upgrade_unsupported',
      'upgrade_running',
      'drain_running',
      'fencing_failed',
      'offline_required',
      'rotation_running',
      'rotation_unsupported',
      'store_not_shared',
      'too_many_gateways',
      'too_many_windows',
      'own_gateway',
      'up_to_date',
      'no_previous_version',
      'packages_outdated',
    ].map((code) => [code, 409]),
  ),
  internal_error: 500,
  host_offline: 503,
  clock_in_doubt: 503,
  packages_missing: 503,
  store_unavailable: 503,
  events_unavailable: 503,
  acme_unavailable: 503,
  acme_rate_limited: 503,
  agent_timeout: 504,
  acme_timeout: 504,
}

/** HTTP status of a code, for the OpenAPI document. */
export function statusOfCode(code: string): number {
  return statusByCode[code] ?? statusOfOthers[code] ?? 400
}

const retryAfterSeconds = 5

export interface ErrorReply {
  readonly status: number
  readonly code: string
  readonly headers: Record<string, string>
  readonly body: string
}

/** Converts an error to the answer of a failed request. Internal details are only logged. */
export function errorReply(thrown: unknown, requestId: string): ErrorReply {
  const { status, shown } = shownError(thrown)
  const body = {
    success: false,
    message: shown.message,
    code: shown.code,
    ...detailsOf(shown),
    request_id: requestId,
  }
  return {
    status,
    code: shown.code,
    headers: headersOf(status, shown.retryAfterSeconds),
    body: JSON.stringify(body),
  }
}

function detailsOf({ field, rule, taskId }: BerthError): { details?: Record<string, unknown> } {
  const details = {
    ...(field !== undefined && { field }),
    ...(rule && { rule: rule.name }),
    ...(rule?.values && { values: rule.values }),
    ...(taskId !== undefined && { task_id: taskId }),
  }
  return Object.keys(details).length > 0 ? { details } : {}
}

/** Returns the error that clients see for a thrown value, and its HTTP status. */
export function shownError(thrown: unknown): { readonly status: number; readonly shown: BerthError } {
  const error = toBerthError(thrown, 'internal error')
  const status = statusByCode[error.code] ?? statusByKind[error.kind]
  return { status, shown: status === 500 ? hideInternal() : error }
}

/** Statuses below 500 after which a repeated request can succeed. */
const unsettled: readonly number[] = [404, 409, 412, 429]

/** True if a repeated request can succeed after this status. */
export function mayTurnOutBetter(status: number): boolean {
  return status >= 500 || unsettled.includes(status)
}

function hideInternal(): BerthError {
  return new BerthError(
    'internal',
    'internal_error',
    'internal error: the log of the gateway contains the request id and the cause',
  )
}

function headersOf(status: number, retryAfter = retryAfterSeconds): Record<string, string> {
  const headers: Record<string, string> = { 'Content-Type': jsonType }
  if (status === 401) headers['WWW-Authenticate'] = 'Bearer'
  if (status === 429 || status === 503) headers['Retry-After'] = String(retryAfter)
  return headers
}
