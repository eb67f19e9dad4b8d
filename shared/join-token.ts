import { BerthError } from './errors.js'
import { hostIdPattern } from './identity.js'

/** Prefix of join tokens. By this prefix, logs recognize and hide a token. A token is the prefix and an ES256 JWT. */
export const joinTokenPrefix = 'berth_jt_'
export const joinIssuer = 'berth-gateway'
export const joinAudience = 'berth-join'
export const joinPath = '/v1/join'
/** Kind (audience) of the tokens with which another gateway joins. */
export const gatewayJoinAudience = 'berth-gateway-join'
export const gatewayJoinPath = '/v1/gateways'
/** Path for progress reports of an installation. The gateway answers each with the state of the host. */
export const installReportPath = '/v1/install'

export type JoinAudience = typeof joinAudience | typeof gatewayJoinAudience

export interface JoinTokenContent {
  readonly hostId: string
  /** Address of the join endpoint of the gateway that created the token, as host:port. */
  readonly address: string
  /** Addresses of the join endpoints of all gateways, beginning with `address`. */
  readonly addresses: readonly string[]
  /** SHA-256 fingerprint of the CA certificate (DER), in lower-case hexadecimal. */
  readonly caFingerprint: string
  readonly expiresAtMs: number
}

export interface JoinRequest {
  readonly token: string
  readonly csr: string
  /** Time of the host's clock in ms since 1970. Older agents do not send it. */
  readonly now_ms?: number
  /** Port of the agent, needed if the gateway does not know the host's address yet. Older agents do not send it. */
  readonly port?: number
}

/** Request of a server that becomes a gateway. */
export interface GatewayJoinRequest {
  readonly token: string
  /** X25519 key for which the answer is encrypted: SubjectPublicKeyInfo (DER) in base64url. */
  readonly public_key: string
  /** Host name of the server. */
  readonly machine: string
}

export interface JoinAnswer {
  readonly host_id: string
  readonly certificate: string
  readonly ca: string
  /** All CAs that the host must trust, in PEM. Older gateways do not send them. */
  readonly authorities?: readonly string[]
}

/**
 * Parses a token. Does not check its signature, because only a gateway can check it. The agent trusts the administrator
 * who gave it the token.
 * @param audience kind of token: for a host or for a gateway that joins
 * @throws {BerthError} `join_token_invalid`
 */
export function parseJoinToken(token: string, audience: JoinAudience = joinAudience): JoinTokenContent {
  const claims = parseClaims(token)
  const { sub, address, ca, exp, aud } = claims
  const other = otherAudience[audience]
  if (aud === other.audience) throw invalidToken(other.message)
  const well =
    typeof sub === 'string' &&
    new RegExp(hostIdPattern).test(sub) &&
    typeof ca === 'string' &&
    /^[0-9a-f]{64}$/.test(ca) &&
    typeof exp === 'number' &&
    typeof address === 'string'
  if (!well || !isHostPort(address)) throw invalidToken('it was created by an incompatible version of the gateway')
  const addresses = [...new Set([address, ...otherAddresses(claims['addresses'])])]
  return { hostId: sub, address, addresses, caFingerprint: ca, expiresAtMs: exp * 1000 }
}

function parseClaims(token: string): Record<string, unknown> {
  const match = /^berth_jt_[\w-]+\.([\w-]+)\.[\w-]+$/.exec(token.trim())
  if (!match || token.length > 4096) throw invalidToken('it must begin with berth_jt_ and be complete')
  try {
    return JSON.parse(Buffer.from(match[1]!, 'base64url').toString('utf8')) as Record<string, unknown>
  } catch (cause) {
    throw invalidToken('it is damaged', cause)
  }
}

function invalidToken(why: string, cause?: unknown): BerthError {
  return new BerthError('invalid', 'join_token_invalid', `join token: ${why}`, { cause })
}

/** Maps the expected kind of token to the other kind, and to the error message for a token of that other kind. */
const otherAudience: Readonly<Record<JoinAudience, { readonly audience: JoinAudience; readonly message: string }>> = {
  [joinAudience]: { audience: gatewayJoinAudience, message: 'it is for a gateway: use it with berth-gateway join' },
  [gatewayJoinAudience]: { audience: joinAudience, message: 'it is for a host: use it with berth-agent join' },
}

/** Returns the addresses of further gateways. Tokens of older gateways contain none. */
function otherAddresses(claim: unknown): string[] {
  const list: readonly unknown[] = Array.isArray(claim) ? claim : []
  return list.filter((address): address is string => typeof address === 'string' && isHostPort(address))
}

/** True if the text is host:port: a name, an IPv4 address or a bracketed IPv6 address, and a port from 1 to 65535. */
export function isHostPort(text: string): boolean {
  const match = /^(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3] ?? 0)
  return port >= 1 && port <= 65535
}

/** @throws {TypeError} if the text does not pass `isHostPort` */
export function splitHostPort(text: string): { host: string; port: number } {
  if (!isHostPort(text)) throw new TypeError(`must be host:port, not ${text}`)
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(text.slice(at + 1)) }
}
