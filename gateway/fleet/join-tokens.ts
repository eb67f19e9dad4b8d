import { randomUUID } from 'node:crypto'
import jwt from 'jsonwebtoken'
import { BerthError } from '../../shared/errors.js'
import { hostIdPattern } from '../../shared/identity.js'
import { joinAudience, joinIssuer, joinTokenPrefix } from '../../shared/join-token.js'
import type { Authority } from '../pki/authority.js'
import type { Store } from '../store/store.js'

/** Content of a genuine token. */
export interface VerifiedToken {
  readonly hostId: string
  readonly id: string
  /** The upgrade that the token is for; absent: it is for joining. */
  readonly upgradeId?: string
}

/**
 * One-time tokens with which a host gets its first certificate. A token is an ES256 JWT, signed with the key of the CA.
 * It is valid while the store contains its id, which a new token for the same host replaces.
 */
export class JoinTokens {
  constructor(
    private readonly store: Store,
    private readonly authority: Authority,
  ) {}

  async create(
    hostId: string,
    options: { address: string; lifetimeMs: number },
  ): Promise<{ token: string; expiresAtMs: number }> {
    const expiresAtMs = Math.floor((Date.now() + options.lifetimeMs) / 1000) * 1000
    const id = randomUUID()
    const token = this.#sign(hostId, { address: options.address, id, expiresAtMs })
    await this.store.run('store a join token', (client) =>
      client.set(this.#key(hostId), id, { expiration: { type: 'PXAT', value: expiresAtMs } }),
    )
    return { token, expiresAtMs }
  }

  /** Creates a token that authorizes the downloads and reports of one upgrade. It cannot authorize a certificate. */
  createForUpgrade(hostId: string, options: { address: string; lifetimeMs: number; upgradeId: string }): string {
    const expiresAtMs = Date.now() + options.lifetimeMs
    return this.#sign(hostId, { ...options, id: randomUUID(), expiresAtMs })
  }

  /**
   * Checks signature and expiry of a token. It may have been used already.
   * @throws {BerthError} `join_token_invalid`
   */
  verify(token: string): VerifiedToken {
    try {
      const claims = jwt.verify(token.slice(joinTokenPrefix.length), this.authority.publicKeyPem, {
        algorithms: ['ES256'],
        issuer: joinIssuer,
        audience: joinAudience,
      })
      if (!token.startsWith(joinTokenPrefix) || typeof claims === 'string') throw new Error('form')
      const { sub: hostId = '', jti: id = '' } = claims
      if (!new RegExp(hostIdPattern).test(hostId) || id === '') throw new Error('claims')
      const upgradeId: unknown = claims['upgrade']
      return { hostId, id, ...(typeof upgradeId === 'string' && { upgradeId }) }
    } catch (cause) {
      const expired = cause instanceof jwt.TokenExpiredError
      throw refused(
        expired
          ? 'the join token has expired: create a new one'
          : 'the join token is not valid: this gateway did not create it',
        cause,
      )
    }
  }

  /**
   * Marks a token as used. Only one of several concurrent attempts succeeds.
   * @throws {BerthError} `join_token_invalid` if the token was used or replaced
   */
  async burn(token: { hostId: string; id: string }): Promise<void> {
    const burned = await this.store.transact('mark a join token as used', async (client) => {
      await client.watch(this.#key(token.hostId))
      if ((await client.get(this.#key(token.hostId))) !== token.id) {
        await client.unwatch()
        return false
      }
      await client.multi().del(this.#key(token.hostId)).exec()
      return true
    })
    if (!burned) throw refused('the join token was already used or replaced by a newer one: create a new one')
  }

  async void(hostId: string): Promise<void> {
    await this.store.run('invalidate a join token', (client) => client.del(this.#key(hostId)))
  }

  #sign(
    hostId: string,
    { address, id, expiresAtMs, upgradeId }: { address: string; id: string; expiresAtMs: number; upgradeId?: string },
  ): string {
    const { fingerprint: ca, privateKeyPem } = this.authority
    const claims = { ca, address, exp: Math.floor(expiresAtMs / 1000), ...(upgradeId && { upgrade: upgradeId }) }
    const options = { issuer: joinIssuer, audience: joinAudience, subject: hostId, jwtid: id }
    return joinTokenPrefix + jwt.sign(claims, privateKeyPem, { algorithm: 'ES256', ...options })
  }

  #key(hostId: string): string {
    return this.store.key('join-token', hostId)
  }
}

function refused(message: string, cause?: unknown): BerthError {
  return new BerthError('unauthenticated', 'join_token_invalid', message, { cause })
}
