import type { GuestSpec } from '../../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, invalidField } from '../../../../shared/errors.js'
import { checkSshPassword } from '../../../../shared/guest-rules.js'
import { parseSshPublicKey } from '../../../../shared/ssh-public-key.js'
import type { CreateBody } from './create-body.js'

export type LoginFields = Pick<CreateBody, 'ssh_auth_mode' | 'ssh_password' | 'ssh_public_key'>
export type PlannedLogin = Pick<GuestSpec, 'sshAuthMode' | 'sshPassword' | 'sshPublicKey'>

export type Os = 'linux' | 'windows'

const noSecrets = { sshPassword: '', sshPublicKey: '' }

/** Plans the login of a new guest. @throws {BerthError} `invalid_field`, `missing_field` */
export function planLogin(body: LoginFields, os: Os = 'linux'): PlannedLogin {
  if (body.ssh_auth_mode === 'keep')
    throw invalidField('ssh_auth_mode', 'ssh_auth_mode: keep is only possible for a reinstall')
  return planNewLogin(body, os)
}

/** Plans the login of a reinstalled guest. @throws {BerthError} `invalid_field`, `missing_field` */
export function planReinstallLogin(body: LoginFields, os: Os = 'linux'): PlannedLogin {
  return body.ssh_auth_mode === 'keep' ? { ...noSecrets, sshAuthMode: 'keep' } : planNewLogin(body, os)
}

function planNewLogin({ ssh_auth_mode: asked, ...body }: LoginFields, os: Os): PlannedLogin {
  const password = body.ssh_password ?? ''
  const keyLine = os === 'windows' ? '' : (body.ssh_public_key ?? '') // Windows guests get no SSH keys
  const mode = (os === 'windows' && asked === 'key' ? undefined : asked) ?? impliedMode(password, keyLine)
  if (mode === 'password') {
    if (password === '') throw missing('ssh_password', 'password')
    checkSshPassword(password)
    return { ...noSecrets, sshAuthMode: 'password', sshPassword: password }
  }
  if (mode === 'key') {
    if (keyLine === '') throw missing('ssh_public_key', 'key')
    const sshPublicKey = parseSshPublicKey(keyLine)
    return { ...noSecrets, sshAuthMode: 'key', sshPublicKey }
  }
  return { ...noSecrets, sshAuthMode: 'auto_password' }
}

/** Selects the login mode that the fields require. @throws {BerthError} `missing_field` if both fields are given */
function impliedMode(password: string, keyLine: string): 'auto_password' | 'password' | 'key' {
  if (password !== '' && keyLine !== '')
    throw new BerthError(
      'invalid',
      'missing_field',
      'ssh_auth_mode: is required if both ssh_password and ssh_public_key are sent',
      { field: 'ssh_auth_mode' },
    )
  if (password !== '') return 'password'
  return keyLine === '' ? 'auto_password' : 'key'
}

function missing(field: string, mode: string): BerthError {
  return new BerthError('invalid', 'missing_field', `${field}: is required in ${mode} mode`, { field })
}
