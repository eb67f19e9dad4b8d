import { BerthError } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Principal } from '../access/principal.js'
import type { Route } from './route.js'

const recentMs = 10 * 60_000

/**
 * Sensitive changes require a recent confirmation of the password, so that access to an open browser is not enough.
 * @throws {BerthError} `confirmation_required`
 */
export function refuseUnconfirmed({ confirmed }: Pick<Route, 'confirmed'>, caller: Principal): void {
  if (!confirmed || caller.kind !== 'session') return
  if (steadyClock.now() - caller.confirmedAtMs <= recentMs) return
  const message =
    'confirm the password, a 2FA code or a passkey first: POST /account/confirm or /account/confirm/passkey'
  throw new BerthError('forbidden', 'confirmation_required', message)
}
