import { toBerthError } from '../../shared/errors.js'
import type { AccessControl } from '../access/contract.js'
import { credentialsOf, type ExchangeContext } from './exchange.js'
import type { Route } from './route.js'

type Access = Pick<AccessControl, 'audit' | 'authenticator'>

/**
 * Adds an audit entry if a page of another site tried to make a change with a user's session. Requests from an
 * address with too many failed authentications get `rate_limited` and add no further entries.
 */
export async function noteForgery(
  { audit, authenticator }: Access,
  route: Route,
  ctx: ExchangeContext,
  error: unknown,
): Promise<void> {
  const { code, message } = toBerthError(error, 'authenticate')
  if (code !== 'csrf_refused' || typeof route.audit !== 'string' || route.scope === 'public') return
  const { exchange } = ctx.state
  const { address, requestId } = exchange
  const caller = await authenticator.recheck(credentialsOf(ctx.req, exchange), address)
  const { id: target = route.path.slice(1) } = ctx.params as { id?: string }
  const entry = await audit.begin({ action: route.audit, caller, address, requestId, target })
  await audit.finish(entry, { success: false, target, detail: `${code}: ${message}` })
}
