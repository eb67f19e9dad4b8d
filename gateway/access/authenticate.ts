import type { IncomingHttpHeaders } from 'node:http'
import { BerthError } from '../../shared/errors.js'
import { sourceOf } from '../../shared/source-address.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { rateLimited, type RateLimit } from '../../shared/rate-limit.js'
import { storeUnavailable } from '../store/connection.js'
import type { Store } from '../store/store.js'
import type { Authenticator, Credentials, SessionCallers } from './contract.js'
import type { FailureLog } from './failure-log.js'
import type { KeyCache, ResolvedKey } from './key-cache.js'
import { digestKey, isKeySecret } from './key-secret.js'
import type { KeyUsage } from './key-usage.js'
import type { Principal } from './principal.js'
import { isExpired } from './rights.js'

/** Maximum length of a key. Longer keys are rejected before their digest is computed. */
const maxKeyLength = 128

export interface AuthenticatorParts {
  readonly store: Store
  readonly cache: KeyCache
  readonly usage: KeyUsage
  readonly failures: FailureLog
  readonly sessions: Pick<SessionCallers, 'has' | 'find' | 'peek'>
  /** Counts failed authentications of each client, see `sourceOf`. */
  readonly limit: RateLimit
}

/** Authenticates requests by key or session. If a request has a key, its cookie is ignored. */
export class CallerAuthenticator implements Authenticator {
  constructor(private readonly parts: AuthenticatorParts) {}

  async authenticate(request: Credentials, address: string): Promise<Principal> {
    try {
      if (!hasKeyHeader(request.headers) && this.parts.sessions.has(request))
        return await this.#findSession(() => this.parts.sessions.find(request))
      const { record, principal } = await this.#checkedKey(request, address)
      this.parts.usage.note(record.id, steadyClock.now(), address)
      return principal
    } catch (error) {
      const shown = this.#limited(error, address)
      this.parts.failures.note(shown, address)
      throw shown
    }
  }

  async recheck(request: Credentials, address: string): Promise<Principal> {
    if (!hasKeyHeader(request.headers)) return this.#findSession(() => this.parts.sessions.peek(request))
    return (await this.#checkedKey(request, address)).principal
  }

  async #checkedKey({ headers }: Credentials, address: string): Promise<ResolvedKey> {
    const resolved = await this.#find(readKeyHeader(headers))
    checkKey(resolved, address, steadyClock.now())
    return resolved
  }

  /**
   * Counts a failed authentication. An address with too many failures gets `rate_limited` for further failures. Valid
   * callers at this address, for example behind the same proxy, are not affected.
   */
  #limited(error: unknown, address: string): unknown {
    const isRefusal = error instanceof BerthError && ['unauthenticated', 'forbidden'].includes(error.kind)
    const waitMs = isRefusal ? this.parts.limit.take(sourceOf(address)) : 0
    return waitMs === 0 ? error : rateLimited('too many failed authentications: try again later', waitMs)
  }

  async #findSession(find: () => Promise<Principal | undefined>): Promise<Principal> {
    await this.#trustMemory()
    const caller = await find()
    if (caller === undefined)
      throw new BerthError('unauthenticated', 'unauthorized', 'the session has ended: log in again')
    return caller
  }

  /** Ensures that cached keys are up to date. */
  async #trustMemory(): Promise<void> {
    const { store } = this.parts
    if (!store.ready()) throw storeUnavailable('authenticate the caller')
    await store.current()
  }

  async #find(key: string): Promise<ResolvedKey> {
    const { cache } = this.parts
    await this.#trustMemory()
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

function hasKeyHeader(headers: IncomingHttpHeaders): boolean {
  return headers['x-api-key'] !== undefined || headers.authorization !== undefined
}

/** @throws {BerthError} `unauthorized` without a key, for a key that is too long, or for two different keys */
function readKeyHeader(headers: IncomingHttpHeaders): string {
  const plain = headers['x-api-key']
  const { authorization } = headers
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  const key = plain === undefined ? bearer : String(plain).trim()
  if (key === undefined || key.length > maxKeyLength || (bearer ?? key) !== key) throw unauthorized()
  return key
}

/** The text does not depend on the reason, so that nobody learns which keys exist. */
function unauthorized(): BerthError {
  return new BerthError('unauthenticated', 'unauthorized', 'a valid API key is required')
}

function checkKey(key: ResolvedKey, address: string, nowMs: number): void {
  const { rights } = key
  if (rights.disabled) throw new BerthError('unauthenticated', 'key_disabled', 'this API key is disabled')
  if (isExpired(rights, nowMs)) throw new BerthError('unauthenticated', 'key_expired', 'this API key has expired')
  if (!key.admits(address))
    throw new BerthError('forbidden', 'ip_not_allowed', 'this API key is not allowed from this address')
}
