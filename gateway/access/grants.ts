import type { Credentials, SessionCallers } from './contract.js'
import type { KeyCache } from './key-cache.js'
import type { Principal } from './principal.js'
import { isExpired } from './rights.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** Names what a caller authenticated with: what outlives a request ends with it. */
export function credentialOf(caller: Principal): string {
  if (caller.kind === 'nobody') return caller.ref
  return caller.kind === 'key' ? `key:${caller.keyId}` : `session:${caller.sessionDigest}`
}

/** The rights of credentials, for what outlives a request: consoles. */
export interface Grants {
  /**
   * The caller with this credential, with the rights of now; undefined: it has none any more, or may do nothing before
   * setting up a second factor. Counts as a use of a session.
   * @throws {BerthError} `store_unavailable`
   */
  find(credential: string): Promise<Principal | undefined>
  /**
   * Whether what was made with the credential may be used by this request: by anybody, where a key made it, else with
   * the session's cookie alone.
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
