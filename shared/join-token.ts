import { BerthError } from './errors.js'
import { hostIdPattern } from './identity.js'

/** The format of join tokens, shared by gateway and agent: an ES256 JWT with a prefix that logs recognize and hide. */
export const joinTokenPrefix = 'berth_jt_'
export const joinIssuer = 'berth-gateway'
export const joinAudience = 'berth-join'
export const joinPath = '/v1/join'
/** Reports of the installation, which are answered with the state of the host. */
export const installReportPath = '/v1/install'

export interface JoinTokenContent {
  readonly hostId: string
  /** host:port of the gateway's join endpoint. */
  readonly address: string
  /** SHA-256 of the CA certificate's DER, lower-case hexadecimal. */
  readonly caFingerprint: string
  readonly expiresAtMs: number
}

export interface JoinRequest {
  readonly token: string
  readonly csr: string
  /** The host's clock, ms since 1970; older agents do not send it. */
  readonly now_ms?: number
  /** Port of the agent, for a host whose address the gateway does not know yet; older agents do not send it. */
  readonly port?: number
}

export interface JoinAnswer {
  readonly host_id: string
  readonly certificate: string
  readonly ca: string
}

/**
 * Parses a token without checking its signature, which is the gateway's task: the agent trusts whoever gave it the
 * token.
 * @throws {BerthError} `join_token_invalid`
 */
export function parseJoinToken(token: string): JoinTokenContent {
  const bad = (why: string) => new BerthError('invalid', 'join_token_invalid', `join token: ${why}`)
  const match = /^berth_jt_[\w-]+\.([\w-]+)\.[\w-]+$/.exec(token.trim())
  if (!match || token.length > 4096) throw bad('it must begin with berth_jt_ and be complete')
  let claims: Record<string, unknown>
  try {
    claims = JSON.parse(Buffer.from(match[1]!, 'base64url').toString('utf8')) as Record<string, unknown>
  } catch (cause) {
    throw new BerthError('invalid', 'join_token_invalid', 'join token: it is damaged', { cause })
  }
  const { sub, address, ca, exp } = claims
  const well =
    typeof sub === 'string' &&
    new RegExp(hostIdPattern).test(sub) &&
    typeof ca === 'string' &&
    /^[0-9a-f]{64}$/.test(ca) &&
    typeof exp === 'number' &&
    typeof address === 'string'
  if (!well || !isHostPort(address)) throw bad('it was created by an incompatible version of the gateway')
  return { hostId: sub, address, caFingerprint: ca, expiresAtMs: exp * 1000 }
}

/** True if it is host:port with a name, an IPv4 address or an IPv6 address in brackets, and a port from 1 to 65535. */
export function isHostPort(text: string): boolean {
  const match = /^(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3] ?? 0)
  return port >= 1 && port <= 65535
}

/** @throws {TypeError} unless `isHostPort` */
export function splitHostPort(text: string): { host: string; port: number } {
  if (!isHostPort(text)) throw new TypeError(`must be host:port, not ${text}`)
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(text.slice(at + 1)) }
}
