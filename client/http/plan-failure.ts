/* This module describes why a request got no answer. */

/** Error of a connection, as Node.js reports it. */
export type ConnectionFailure = Pick<NodeJS.ErrnoException, 'code' | 'message'>

const noTls = /wrong version number|packet length too long|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/
const unresolvedCodes = new Set(['ENOTFOUND', 'EAI_AGAIN'])

/** True if the code says that the name of the gateway has no address. */
export const isUnresolved = (code: string): boolean => unresolvedCodes.has(code)

/** Returns the message for the user. @param url the URL of the gateway */
export function describeFailure(url: string, { code = '', message }: ConnectionFailure): string {
  if (isUnresolved(code)) return `the name ${new URL(url).hostname} cannot be resolved`
  if (noTls.test(message))
    return `${url} does not use TLS: ${isLocal(url) ? `try ${withoutTls(url)}` : 'check the port'}`
  const [, reason] = /:SSL routines:[^:]*:([^:]+)/.exec(message) ?? []
  if (reason !== undefined) return `cannot reach ${url}: TLS failed: ${reason}`
  return `cannot reach ${url}: ${code === 'ECONNREFUSED' ? 'the connection was refused' : message.trim()}`
}

/** True for addresses of this machine. The key must not leave it without encryption. */
function isLocal(url: string): boolean {
  return /^(localhost|127\..*|\[::1\])$/.test(new URL(url).hostname)
}

/** Returns the URL with `http`, and with the same port. */
function withoutTls(url: string): string {
  const { hostname, port, pathname } = new URL(url)
  return `http://${hostname}:${port || '443'}${pathname.replace(/\/$/, '')}`
}
