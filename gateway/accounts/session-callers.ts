import type { AccountSettings } from './account-settings.js'
import type { Credentials, SessionCallers } from '../access/contract.js'
import type { SessionPrincipal } from '../access/principal.js'
import { readCookie } from './cookies.js'
import { csrfRefused, isSameSite } from './same-site.js'
import { principalOf } from './session-principal.js'
import { digestToken, type CsrfValues } from './session-secret.js'
import { userOf, type Session, type Sessions } from './sessions.js'

const reads: readonly (string | undefined)[] = ['GET', 'HEAD', 'OPTIONS']

/** Finds callers by the cookie of their session. */
export class SessionCookies implements SessionCallers {
  constructor(
    private readonly sessions: Sessions,
    private readonly csrf: CsrfValues,
    private readonly settings: Pick<AccountSettings, 'mustEnrol'>,
  ) {}

  has({ headers, secure = false }: Credentials): boolean {
    return readCookie(headers, 'berth', secure) !== undefined
  }

  /**
   * Finds the caller of a request. A request that changes something needs the session's CSRF token and must not come
   * from another site.
   * @throws {BerthError} `csrf_refused`, `store_unavailable`
   */
  async find(request: Credentials): Promise<SessionPrincipal | undefined> {
    const { headers, method, secure = false } = request
    const session = await this.sessions.find(readCookie(headers, 'berth', secure) ?? '')
    if (session === undefined) return undefined
    if (!reads.includes(method)) this.#checkPage(request, session.digest)
    return this.#callerOf(session)
  }

  async findByDigest(digest: string): Promise<SessionPrincipal | undefined> {
    const session = await this.sessions.findByDigest(digest)
    return session && this.#callerOf(session)
  }

  isOf(digest: string, { headers, secure = false }: Credentials): boolean {
    const token = readCookie(headers, 'berth', secure)
    return token !== undefined && digestToken(token) === digest
  }

  async peek({ headers, secure = false }: Credentials): Promise<SessionPrincipal | undefined> {
    const session = await this.sessions.peek(readCookie(headers, 'berth', secure) ?? '')
    return session && this.#callerOf(session)
  }

  #callerOf(session: Session): SessionPrincipal {
    return principalOf(session, this.settings.mustEnrol(userOf(session)))
  }

  #checkPage({ headers, secure = false }: Credentials, digest: string): void {
    if (isSameSite(headers, secure) !== true)
      throw csrfRefused('the header Origin or Sec-Fetch-Site must show that a page of this server sent the request')
    const sent = headers['x-berth-csrf']
    if (typeof sent !== 'string' || !this.csrf.matches(digest, sent))
      throw csrfRefused('the header X-Berth-CSRF must be the CSRF token from GET /session')
  }
}
