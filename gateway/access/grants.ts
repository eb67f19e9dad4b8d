import type { Credentials, SessionCallers } from './contract.js'
import type { KeyCache } from './key-cache.js'
import type { Principal } from './principal.js'
import { isExpired } from './rights.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** Names the credential of a caller: consoles and streams end with it. */
export function credentialOf(caller: Principal): string {
  if (caller.kind === 'nobody') return caller.ref
  return caller.kind === 'key' ? `key:${caller.keyId}` : `session:${caller.sessionDigest}`
}

/** The rights of credentials, for consoles, which outlive requests. */
export interface Grants {
  /**
   * The caller with this credential and its present rights; undefined: the credential is not valid any more, or must
   * set up a second factor first. Counts as a use of a session.
   * @throws {BerthError} `store_unavailable`
   */
  find(credential: string): Promise<Principal | undefined>
  /**
   * True if this request may use what the credential created: any request if it was a key, otherwise only one with the
   * session's cookie.
   */
  isBearer(credential: string, request: Credentials): boolean
}

/** Grants of API keys and of sessions. */
export class CallerGrants implements Grants {
  constructor(
    private readonly cache: KeyCache,
    private readonly sessions: SessionCallers,
  ) {}

  async find(credential: string): Promise<Principal | undefined> {
    const { kind, name } = parse(credential)
    if (kind === 'key') return this.#findKey(Number(name))
    const caller = kind === 'session' ? await this.sessions.findByDigest(name) : undefined
    return caller?.mustEnrol ? undefined : caller
  }

  isBearer(credential: string, request: Credentials): boolean {
    const { kind, name } = parse(credential)
    return kind === 'key' || (kind === 'session' && this.sessions.isOf(name, request))
  }

  async #findKey(id: number): Promise<Principal | undefined> {
    const key = await this.cache.findById(id)
    if (!key?.complete || key.rights.disabled || isExpired(key.rights, steadyClock.now())) return undefined
    return key.principal
  }
}

function parse(credential: string): { kind: string; name: string } {
  const [kind = '', name = ''] = credential.split(':')
  return { kind, name }
}
