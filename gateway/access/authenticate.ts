import type { IncomingHttpHeaders } from 'node:http'
import { BerthError } from '../../shared/errors.js'
import { sourceOf } from '../../shared/source-address.js'
import { rateLimited, type RateLimit } from '../rate-limit.js'
import { storeUnavailable } from '../store/connection.js'
import type { Store } from '../store/store.js'
import type { Authenticator, Credentials } from './contract.js'
import type { FailureLog } from './failure-log.js'
import type { KeyCache, ResolvedKey } from './key-cache.js'
import { digestKey, isKeySecret } from './key-secret.js'
import type { KeyUsage } from './key-usage.js'
import type { Principal } from './principal.js'
import { isExpired } from './rights.js'

/** A cached key counts this long after the store last proved that nothing was missed. */
const leaseMs = 2000
/** Longer text is not worth a digest. */
const maxKeyLength = 128

export interface AuthenticatorParts {
  readonly store: Store
  readonly cache: KeyCache
  readonly usage: KeyUsage
  readonly failures: FailureLog
  /** Of failures, by `sourceOf` the address. */
  readonly limit: RateLimit
}

export class KeyAuthenticator implements Authenticator {
  constructor(private readonly parts: AuthenticatorParts) {}

  async authenticate({ headers }: Credentials, address: string): Promise<Principal> {
    try {
      const key = readKeyHeader(headers)
      const resolved = await this.#find(key)
      const nowMs = Date.now()
      checkKey(resolved, address, nowMs)
      this.parts.usage.note(resolved.record.id, nowMs, address)
      return resolved.principal
    } catch (error) {
      const shown = this.#limited(error, address)
      this.parts.failures.note(shown, address)
      throw shown
    }
  }

  /**
   * Only failures count, and only they are refused: whoever shares an address with a broken client, as behind
   * one proxy, is let in as ever.
   */
  #limited(error: unknown, address: string): unknown {
    const isRefusal = error instanceof BerthError && ['unauthenticated', 'forbidden'].includes(error.kind)
    const waitMs = isRefusal ? this.parts.limit.take(sourceOf(address)) : 0
    return waitMs === 0 ? error : rateLimited('too many failed authentications; try again later', waitMs)
  }

  async #find(key: string): Promise<ResolvedKey> {
    const { store, cache } = this.parts
    if (!store.ready()) throw storeUnavailable('authenticate')
    // A stalled process may hold a cache whose invalidations still wait in its socket.
    if (performance.now() - store.confirmedAtMs() > leaseMs) await store.ping()
    const digest = digestKey(key)
    const cached = cache.get(digest)
    if (cached) return checkComplete(cached)
    return checkComplete(isKeySecret(key) ? await cache.load(digest) : undefined)
  }
}

function checkComplete(key: ResolvedKey | undefined): ResolvedKey {
  if (!key?.complete) throw unauthorized()
  return key
}

/** @throws {BerthError} `unauthorized` for no key, one too long to be one, or two that differ */
function readKeyHeader(headers: IncomingHttpHeaders): string {
  const plain = headers['x-api-key']
  const { authorization } = headers
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  const key = plain === undefined ? bearer : String(plain).trim()
  if (key === undefined || key.length > maxKeyLength || (bearer ?? key) !== key) throw unauthorized()
  return key
}

/** The same words for every reason: nobody learns which keys exist. */
function unauthorized(): BerthError {
  return new BerthError('unauthenticated', 'unauthorized', 'a valid API key is required')
}

function checkKey(key: ResolvedKey, address: string, nowMs: number): void {
  const { rights } = key
  if (rights.disabled) throw new BerthError('unauthenticated', 'key_disabled', 'this API key is disabled')
  if (isExpired(rights, nowMs))
    throw new BerthError('unauthenticated', 'key_expired', 'this API key has expired')
  if (!key.admits(address))
    throw new BerthError('forbidden', 'ip_not_allowed', 'this API key may not be used from this address')
}
