import { statusOfCode } from './errors.js'
import { isRepeatable, type Route } from './route.js'

/** Error codes by HTTP status, in ascending order. */
export type Failures = ReadonlyMap<number, readonly string[]>

const everywhere = [
  'invalid_request',
  'invalid_field',
  'unauthorized',
  'key_disabled',
  'key_expired',
  'ip_not_allowed',
  'access_policy_denied',
  'rate_limited',
  'internal_error',
  'store_unavailable',
]
/** Errors of routes that call agents. */
export const ofAgents = ['host_offline', 'agent_timeout']

/** Error codes of a route: codes that follow from the route's properties, and codes that the route lists. */
export function failuresOf(route: Route): Failures {
  const codes = new Set([...everywhere, ...partCodes(route), ...(route.errors ?? [])])
  if (ofAgents.some((code) => codes.has(code))) for (const code of [...ofAgents, 'agent_error']) codes.add(code)
  const byStatus = new Map<number, string[]>()
  for (const code of codes) {
    const status = statusOfCode(code)
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b))
}

const open: readonly string[] = ['any', 'public']

function callerCodes({ scope, bound, confirmed }: Route): string[] {
  return [
    ...(open.includes(scope) && bound !== 'refused' ? [] : ['insufficient_scope']),
    ...(scope === 'public' || scope === 'session' ? [] : ['two_factor_required']),
    ...(confirmed ? ['confirmation_required'] : []),
  ]
}

function partCodes(route: Route): string[] {
  const isWrite = route.method !== 'GET'
  return [
    ...callerCodes(route),
    ...(isWrite ? ['csrf_refused'] : []),
    ...(route.params ? ['not_found'] : []),
    ...(route.bound === 'guest' || route.bound === 'task' ? ['host_offline'] : []),
    ...(isRefusedWhileBlocked(route) ? ['policy_blocked'] : []),
    ...(isWrite ? ['invalid_body', 'payload_too_large', 'unsupported_media_type'] : []),
    ...(route.body ? ['missing_field', 'invalid_json'] : []),
    ...(isRepeatable(route) ? ['task_running', 'idempotency_conflict'] : []),
    ...(route.conditional ? ['precondition_failed'] : []),
  ]
}

/** True if sub-users may not use the route while its container is suspended, see `refuseBlocked`. */
function isRefusedWhileBlocked({ method, bound, subUser }: Route): boolean {
  return method !== 'GET' && bound === 'guest' && subUser !== 'refused'
}
