import type { IncomingHttpHeaders } from 'node:http'

/* Cookies of browsers (RFC 6265). Under TLS their names begin with `__Host-`, so that other hosts cannot set them. */

/**
 * - `berth`: the session.
 * - `berth-device`: proves that the device has logged in before.
 * - `berth-return`: the session of an administrator who sees the panel as a sub-user.
 */
export type CookieName = 'berth' | 'berth-device' | 'berth-return'

const fullName = (name: CookieName, secure: boolean): string => (secure ? `__Host-${name}` : name)

/**
 * Returns the value of a cookie. `undefined`: the cookie is absent, or occurs twice with different values.
 * @param secure true if the request came over TLS
 */
export function readCookie({ cookie }: IncomingHttpHeaders, name: CookieName, secure: boolean): string | undefined {
  if (cookie === undefined) return undefined
  const begin = `${fullName(name, secure)}=`
  const parts = cookie.split(';').map((part) => part.trim())
  const values = parts.filter((part) => part.startsWith(begin)).map((part) => part.slice(begin.length))
  return values.every((value) => value === values[0]) ? values[0] : undefined
}

/**
 * Creates a `Set-Cookie` header. Scripts cannot read the cookie, and requests from other sites do not contain it.
 * @param seconds lifetime; 0 removes the cookie, `undefined` keeps it until the browser is closed
 */
export function cookieHeader(
  name: CookieName,
  value: string,
  { secure, seconds }: { secure: boolean; seconds?: number },
): string {
  const age = seconds === undefined ? '' : `; Max-Age=${seconds}`
  return `${fullName(name, secure)}=${value}; Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${age}`
}
