import type { Credentials, SessionCallers } from './contract.js'
import type { KeyCache } from './key-cache.js'
import type { Principal } from './principal.js'
import { isExpired } from './rights.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** Identifies the credential of a caller. When the credential becomes invalid, its consoles and streams end. */
export function credentialOf(caller: Principal): string {
  if (caller.kind === 'nobody') return caller.ref
  return caller.kind === 'key' ? `key:${caller.keyId}` : `session:${caller.sessionDigest}`
}

/** Finds the present rights of a credential. Consoles stay open after their request, so they need current rights. */
export interface Grants {
  /**
   * Finds the caller with this credential. `undefined`: the credential is no longer valid, or the user must first set
   * up a second factor. If the credential is a session, the search counts as a use of it.
   * @throws {BerthError} `store_unavailable`
   */
  find(credential: string): Promise<Principal | undefined>
  /**
   * True if the sender of this request may use an object that was created with `credential`, for example a ticket. If a
   * session created the object, the request must have its cookie. If an API key created the object, the result is true.
   */
  isBearer(credential: string, request: Credentials): boolean
}

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
