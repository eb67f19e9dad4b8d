import { randomUUID } from 'node:crypto'
import { joinAudience } from '../../shared/join-token.js'
import { signToken, tokenRefused, verifyToken } from '../join/signed-token.js'
import type { Authority } from '../pki/authority.js'
import type { Store } from '../store/store.js'

export interface VerifiedToken {
  readonly hostId: string
  readonly id: string
  /** Id of the upgrade for which the token is valid; absent: the token is for joining. */
  readonly upgradeId?: string
}

/**
 * One-time tokens with which a host gets its first certificate. A token is an ES256 JWT, signed with the key of the CA.
 * For each host, only the newest token is valid. Its id is in the store until the token is used.
 */
export class JoinTokens {
  constructor(
    private readonly store: Store,
    private readonly authority: Authority,
  ) {}

  async create(
    hostId: string,
    options: { addresses: readonly string[]; lifetimeMs: number },
  ): Promise<{ token: string; expiresAtMs: number }> {
    const expiresAtMs = Math.floor((Date.now() + options.lifetimeMs) / 1000) * 1000
    const id = randomUUID()
    const content = { subject: hostId, id, expiresAtMs, addresses: options.addresses }
    const token = signToken(this.authority, joinAudience, content)
    await this.store.run('store a join token', (client) =>
      client.set(this.#key(hostId), id, { expiration: { type: 'PXAT', value: expiresAtMs } }),
    )
    return { token, expiresAtMs }
  }

  /** Creates a token for the downloads and reports of one upgrade. A certificate cannot be requested with it. */
  createForUpgrade(hostId: string, options: { address: string; lifetimeMs: number; upgradeId: string }): string {
    const expiresAtMs = Math.floor((Date.now() + options.lifetimeMs) / 1000) * 1000
    const content = { subject: hostId, id: randomUUID(), expiresAtMs, addresses: [options.address] }
    return signToken(this.authority, joinAudience, { ...content, claims: { upgrade: options.upgradeId } })
  }

  /** Checks signature and expiry of a token, even if it was used before. @throws {BerthError} `join_token_invalid` */
  verify(token: string): VerifiedToken {
    const { subject: hostId, id, claims } = verifyToken(this.authority, joinAudience, token)
    const upgradeId = claims['upgrade']
    return { hostId, id, ...(typeof upgradeId === 'string' && { upgradeId }) }
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
    if (!burned) throw tokenRefused('the join token was already used or replaced by a newer one: create a new one')
  }

  async void(hostId: string): Promise<void> {
    await this.store.run('invalidate a join token', (client) => client.del(this.#key(hostId)))
  }

  #key(hostId: string): string {
    return this.store.key('join-token', hostId)
  }
}
