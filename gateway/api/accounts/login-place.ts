import { BerthError } from '../../../shared/errors.js'
import { cookieHeader, readCookie } from '../../accounts/cookies.js'
import type { LoggedIn, LoginPlace } from '../../accounts/logins.js'
import type { NewSession, Session, Sessions } from '../../accounts/sessions.js'
import type { RequestContext } from '../../http/route.js'

type AnyContext = RequestContext<unknown, unknown, unknown>
type LoginRequest = Pick<AnyContext, 'headers' | 'address' | 'secure'>
type CookieRequest = Pick<LoginRequest, 'headers' | 'secure'>

const yearSeconds = 365 * 86_400

/** Returns the device from which a user sent a request. */
export function placeOf({ headers, address, secure }: LoginRequest): LoginPlace {
  const deviceCookie = readCookie(headers, 'berth-device', secure)
  return { address, userAgent: headers['user-agent'] ?? '', deviceCookie }
}

/** Returns the caller's session. @throws {BerthError} `not_found` if it has just ended, `store_unavailable` */
export function sessionOf(sessions: Sessions, { caller }: Pick<AnyContext, 'caller'>): Promise<Session> {
  if (caller.kind === 'session') return sessions.get(caller.sessionDigest)
  throw new BerthError('internal', 'internal_error', 'this route does not have the scope session')
}

export function sessionCookie({ token, record }: NewSession, { secure }: Pick<LoginRequest, 'secure'>): string {
  const seconds = Math.ceil((record.expiresAtMs - record.createdAtMs) / 1000)
  return cookieHeader('berth', token, { secure, seconds })
}

/** Creates the cookies that a login sends to the browser. */
export function loginCookies({ session, deviceCookie }: LoggedIn, request: CookieRequest): string[] {
  const { secure } = request
  const device = cookieHeader('berth-device', deviceCookie, { secure, seconds: yearSeconds })
  return [sessionCookie(session, request), device, ...withoutReturn(request)]
}

/** Removes the session to which an administrator would return from the view of a sub-user. */
export function withoutReturn({ headers, secure }: CookieRequest): string[] {
  if (readCookie(headers, 'berth-return', secure) === undefined) return []
  return [cookieHeader('berth-return', '', { secure, seconds: 0 })]
}
