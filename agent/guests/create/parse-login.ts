import { invalidField } from '../../../shared/errors.js'
import { checkSshPassword } from '../../../shared/guest-rules.js'
import { parseSshPublicKey } from '../../../shared/ssh-public-key.js'
import type { Login } from '../../drivers/machine.js'
import type { LoginVault } from '../login-vault.js'
import { makePassword } from './make-password.js'

/** The login that a request asks for. */
export type LoginRequest =
  /** The logins in the guest's files stay as they are. Only for imported guests. */
  { kind: 'kept' } | { kind: 'auto' } | { kind: 'password'; password: string } | { kind: 'key'; publicKey: string }

interface WireLogin {
  readonly sshAuthMode: string
  readonly sshPassword: string
  readonly sshPublicKey: string
}

/** Parses the login of a request. @throws {BerthError} `invalid_field` */
export function parseLogin(wire: WireLogin): LoginRequest {
  switch (wire.sshAuthMode) {
    case 'auto_password':
      return { kind: 'auto' }
    case 'password':
      checkSshPassword(wire.sshPassword)
      return { kind: 'password', password: wire.sshPassword }
    case 'key':
      return { kind: 'key', publicKey: parseSshPublicKey(wire.sshPublicKey) }
    default:
      throw invalidField('ssh_auth_mode', 'ssh_auth_mode: must be auto_password, password or key')
  }
}

/** Returns the login request. Windows does not support SSH keys, so a generated password replaces a key. */
export function loginFor(os: 'linux' | 'windows', request: LoginRequest): LoginRequest {
  return os === 'windows' && request.kind === 'key' ? { kind: 'auto' } : request
}

/** Returns the login for the guest, with a generated password if the request asks for one. */
export function loginOf(request: LoginRequest): Login {
  switch (request.kind) {
    case 'kept':
      return {}
    case 'auto':
      return { password: makePassword() }
    case 'password':
      return { password: request.password }
    case 'key':
      return { publicKey: request.publicKey }
  }
}

/**
 * Replaces the password of a request with a keyed digest. To recognize a repeated request, the journal stores a fast
 * hash of each request. If this hash included the password itself, the password could be guessed from it.
 */
export function hashableLogin(logins: LoginVault, request: LoginRequest): LoginRequest {
  return request.kind === 'password' ? { ...request, password: logins.digest(request.password) } : request
}
