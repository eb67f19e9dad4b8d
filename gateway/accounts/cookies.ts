import type { IncomingHttpHeaders } from 'node:http'

/* Cookies of browsers (RFC 6265). Under TLS their names begin with `__Host-`, so that no other host can set them. */

export type CookieName = 'berth' | 'berth-device'

const fullName = (name: CookieName, secure: boolean): string => (secure ? `__Host-${name}` : name)

/**
 * A cookie's value; `undefined`: it is absent, or occurs twice with different values.
 * @param secure whether the request came over TLS
 */
export function readCookie({ cookie }: IncomingHttpHeaders, name: CookieName, secure: boolean): string | undefined {
  if (cookie === undefined) return undefined
  const begin = `${fullName(name, secure)}=`
  const parts = cookie.split(';').map((part) => part.trim())
  const values = parts.filter((part) => part.startsWith(begin)).map((part) => part.slice(begin.length))
  return values.every((value) => value === values[0]) ? values[0] : undefined
}

/**
 * `Set-Cookie` for a value that scripts cannot read and other sites cannot send.
 * @param seconds 0 removes it; `undefined`: until the browser is closed
 */
export function cookieHeader(
  name: CookieName,
  value: string,
  { secure, seconds }: { secure: boolean; seconds?: number },
): string {
  const age = seconds === undefined ? '' : `; Max-Age=${seconds}`
  return `${fullName(name, secure)}=${value}; Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${age}`
}
