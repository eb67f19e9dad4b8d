import { createHmac } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'
import type { Login } from '../drivers/machine.js'
import type { GuestContext } from './context.js'

/** Encrypts logins for the journal; one guest's ciphertext cannot be opened for another. */
export function loginVault(key: Buffer): Pick<GuestContext, 'sealLogin' | 'openLogin' | 'digestSecret'> {
  return {
    sealLogin: (uuid, login) => seal(key, JSON.stringify(login), uuid),
    digestSecret: (secret) => createHmac('sha256', key).update(secret).digest('base64url'),
    openLogin: ({ uuid, login }) => (login === null ? {} : (JSON.parse(open(key, login, uuid)) as Login)),
  }
}
