import type { IncomingHttpHeaders } from 'node:http'
import { BerthError } from '../../shared/errors.js'

/**
 * True if, according to the browser, a page of this server sent the request. `Origin` must name this server, with https
 * under TLS, and `Sec-Fetch-Site` must be `same-origin`. A missing header is ignored. `undefined`: both are missing, as
 * in requests of programs. Source: https://www.w3.org/TR/fetch-metadata/
 */
export function isSameSite(headers: IncomingHttpHeaders, secure: boolean): boolean | undefined {
  const { origin, host = '' } = headers
  const site = headers['sec-fetch-site']
  if (origin === undefined && site === undefined) return undefined
  if (site !== undefined && site !== 'same-origin') return false
  return origin === undefined || isOwnOrigin(origin, host, secure)
}

function isOwnOrigin(origin: string, host: string, secure: boolean): boolean {
  if (!URL.canParse(origin) || host === '') return false
  const url = new URL(origin)
  const schemes = secure ? ['https:'] : ['https:', 'http:']
  const own = `${url.protocol}//${host.toLowerCase()}`
  return schemes.includes(url.protocol) && URL.canParse(own) && url.origin === origin && new URL(own).origin === origin
}

/** @throws {BerthError} `csrf_refused` if a page of another site sent the request */
export function refuseOtherSites(headers: IncomingHttpHeaders, secure: boolean): void {
  if (isSameSite(headers, secure) === false) throw csrfRefused('the request was sent by a page of another site')
}

export function csrfRefused(message: string): BerthError {
  return new BerthError('forbidden', 'csrf_refused', message)
}
