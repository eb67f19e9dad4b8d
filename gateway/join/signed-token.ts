import jwt from 'jsonwebtoken'
import { BerthError } from '../../shared/errors.js'
import { hostIdPattern } from '../../shared/identity.js'
import { joinIssuer, joinTokenPrefix, type JoinAudience } from '../../shared/join-token.js'
import type { Authority } from '../pki/authority.js'

export interface TokenContent {
  /** Id of the host or gateway that may join. */
  readonly subject: string
  readonly id: string
  readonly expiresAtMs: number
  /** Addresses of the join endpoints of all gateways, as host:port. The address of this gateway comes first. */
  readonly addresses: readonly string[]
  readonly claims?: Readonly<Record<string, unknown>>
}

export interface VerifiedContent {
  readonly subject: string
  readonly id: string
  readonly claims: Readonly<Record<string, unknown>>
}

/** Creates a token: an ES256 JWT, signed with the key of the CA. */
export function signToken(authority: Authority, audience: JoinAudience, content: TokenContent): string {
  const { subject, id, expiresAtMs, claims } = content
  const addresses = [...new Set(content.addresses)] // gateways behind a load balancer have the same address
  const payload = { ca: authority.fingerprint, address: addresses[0], addresses, exp: expiresAtMs / 1000, ...claims }
  const options = { issuer: joinIssuer, audience, subject, jwtid: id }
  return joinTokenPrefix + jwt.sign(payload, authority.privateKeyPem, { algorithm: 'ES256', ...options })
}

/**
 * Checks signature, audience and expiry of a token. Also accepts a token that was already used.
 * @throws {BerthError} `join_token_invalid`
 */
export function verifyToken(authority: Authority, audience: JoinAudience, token: string): VerifiedContent {
  try {
    const claims = jwt.verify(token.slice(joinTokenPrefix.length), authority.publicKeyPem, {
      algorithms: ['ES256'],
      issuer: joinIssuer,
      audience,
    })
    if (!token.startsWith(joinTokenPrefix) || typeof claims === 'string') throw new Error('form')
    const { sub: subject = '', jti: id = '' } = claims
    if (!new RegExp(hostIdPattern).test(subject) || id === '') throw new Error('claims')
    return { subject, id, claims }
  } catch (cause) {
    const expired = cause instanceof jwt.TokenExpiredError
    throw tokenRefused(
      expired
        ? 'the join token has expired: create a new one'
        : 'the join token is not valid: it is incomplete, has another purpose, comes from another fleet, or was created before the certificate authority was replaced',
      cause,
    )
  }
}

export function tokenRefused(message: string, cause?: unknown): BerthError {
  return new BerthError('unauthenticated', 'join_token_invalid', message, { cause })
}
